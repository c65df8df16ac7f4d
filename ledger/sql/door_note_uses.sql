-- Adds to the counters of tokens. $1 SHA-256 of each, $2 uses, $3 refusals of what is not in force
SELECT {cell}.api_note_uses($1, $2, $3)
