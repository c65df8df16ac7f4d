-- Hears outcomes on this session; whether every one is told from now on.
SELECT {cell}.hear_outcomes()
