-- Which database this is, by the database clock, and whether the login may read the identifier of the server.
SELECT current_database()::text AS database,
  clock_timestamp() AS now,
  has_function_privilege('pg_control_system()', 'EXECUTE') AS identified
