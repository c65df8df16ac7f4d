-- Lets the line of a participant go on past an instruction; returns its sequence_id. $1 outbox_id, $2 reason
SELECT {cell}.skip_in_order($1, $2)
