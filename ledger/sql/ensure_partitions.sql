-- Makes the partitions that are missing, and names them. $1 months ahead
SELECT {cell}.ensure_attempt_partitions($1)
