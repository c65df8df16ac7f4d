-- Opens a gate, so that new instructions are accepted again. $1 scope, $2 name, $3 reason
SELECT {cell}.open_enqueue($1, $2, $3)
