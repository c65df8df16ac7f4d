-- The only function whose body depends on the version of the server.
SELECT p.prosrc FROM pg_catalog.pg_proc p
WHERE p.pronamespace = to_regnamespace('{cell}') AND p.proname = 'uuidv7'
