-- The body of schema_version: it names the newest migration of the cell, and the oldest one whose
-- binaries work on it.
SELECT p.prosrc
FROM pg_proc p
WHERE p.pronamespace = to_regnamespace('{cell}') AND p.proname = 'schema_version'
