-- Whether the server can read a JSON text at all: an error says why not. $1 text
SELECT $1::text::jsonb IS NOT NULL
