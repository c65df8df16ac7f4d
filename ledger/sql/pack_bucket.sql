-- Packs the participants of a bucket that is being moved. $1 bucket
SELECT p.version, p.participants, p.keys, p.digest
FROM {cell}.pack_bucket($1) p
