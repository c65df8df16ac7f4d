-- packed_participants(bucket integer, version integer, after text, most integer) -> jsonb
--   The next participants of a packed bucket, with the number that each has next, in the order of
--   participant_id and after the given one: an array of objects, empty at the end.
-- reads:   payment_packed_participants.   writes, locks: nothing.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.packed_participants(bucket integer, version integer, after text, most integer)
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT coalesce(jsonb_agg(to_jsonb(p) ORDER BY p.participant_id), '[]')
  FROM (
    SELECT p.participant_id, p.next_sequence_id FROM {cell}.payment_packed_participants p
    WHERE p.bucket = $1 AND p.version = $2 AND p.participant_id > $3 COLLATE "C"
    ORDER BY p.participant_id
    LIMIT least($4, 10000)) p
$$;
