-- The clock that ages are judged by.
SELECT clock_timestamp()
