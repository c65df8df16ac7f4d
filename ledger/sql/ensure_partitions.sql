-- Creates the missing partitions, and returns their names. $1 months ahead
SELECT {cell}.ensure_attempt_partitions($1)
