-- Adds to the counters of tokens. $1 SHA-256 of each token, $2 uses, $3 refusals because it was not
-- in force
SELECT {cell}.api_note_uses($1, $2, $3)
