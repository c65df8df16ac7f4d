-- complete_arrival(bucket integer, version integer, digest text, whole boolean) -> boolean
--   Compares what this cell has stored of a bucket that another one has packed with the digest of it, and
--   returns whether it is all there. If it is, nothing is added to it or taken from it any more, and the bucket may be
--   taken (keep_out_bucket). If it isn't, although the caller has stored the whole of it, the copy is given up: it
--   begins anew with begin_arrival, which discards what there is. False also if another packing has begun to arrive.
-- errors:  55P03 after 5 s of waiting for a lock.
-- reads:   what moved_digest reads.   writes: payment_arrivals.
-- locks:   the row of payment_arrivals.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.complete_arrival(bucket integer, version integer, digest text,
  whole boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  known {cell}.payment_arrivals;
BEGIN
  PERFORM {cell}.require_durable_map();
  SELECT a.* INTO known FROM {cell}.payment_arrivals a WHERE a.bucket = $1 AND a.version = $2 FOR UPDATE;
  IF NOT FOUND OR known.digest <> $3 COLLATE "C" THEN
    RETURN false;
  END IF;
  IF known.complete_at IS NULL THEN
    IF known.digest IS DISTINCT FROM (SELECT d.digest FROM {cell}.moved_digest($1, $2, true) d) THEN
      DELETE FROM {cell}.payment_arrivals a WHERE a.bucket = $1 AND a.version = $2 AND whole;
      RETURN false;
    END IF;
    UPDATE {cell}.payment_arrivals a SET complete_at = clock_timestamp() WHERE a.bucket = $1 AND a.version = $2;
  END IF;
  RETURN true;
END
$$;
