-- The database clock, by which ages are judged.
SELECT clock_timestamp()
