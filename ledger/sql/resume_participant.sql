-- Ends the pause of a participant. $1 participant_id, $2 reason
SELECT {cell}.resume_participant($1, $2)
