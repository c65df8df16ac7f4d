-- Closes a gate, so that new instructions are refused. $1 scope, $2 name, $3 reason, $4 until;
-- null: no end
SELECT {cell}.close_enqueue($1, $2, $3, $4)
