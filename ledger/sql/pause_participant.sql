-- Stops claims of a participant. $1 participant_id, $2 reason, $3 until; null: no end
SELECT {cell}.pause_participant($1, $2, $3)
