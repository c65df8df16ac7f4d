-- Stops claims of a participant. $1 participant_id, $2 reason
SELECT {cell}.pause_participant($1, $2)
