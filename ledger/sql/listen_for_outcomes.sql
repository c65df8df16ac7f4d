-- Hears outcomes on this session; whether every one is told from now on.
SELECT {cell}.listen_for_outcomes()
