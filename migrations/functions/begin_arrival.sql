-- begin_arrival(bucket integer, version integer, digest text) -> boolean
--   Prepares this cell for what another one has packed of a bucket, and returns whether it has all of it
--   already. What it has stored of an earlier packing of the same version is discarded, unless that is in
--   force. The rows are not used before this cell takes the bucket.
-- errors:  RH020 the version is known here, and was not given with this digest; 25001 above READ COMMITTED;
--          55P03 after 5 s of waiting for a lock.
-- reads:   payment_buckets, payment_cell_changes.
-- writes:  payment_arrivals, payment_arrived_participants, payment_arrived_keys.
-- locks:   the bucket's row, then that of payment_arrivals.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.begin_arrival(bucket integer, version integer, digest text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  held  {cell}.payment_buckets;
  known {cell}.payment_arrivals;
BEGIN
  PERFORM {cell}.require_durable_map();
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = begin_arrival.bucket FOR UPDATE;
  IF NOT FOUND OR held.version >= begin_arrival.version AND NOT EXISTS (
    SELECT FROM {cell}.payment_cell_changes k
    WHERE k.bucket = begin_arrival.bucket AND k.version = begin_arrival.version AND k.digest = begin_arrival.digest)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell knows another version %s of bucket %s', begin_arrival.version, begin_arrival.bucket),
      HINT = 'railhead cell sync, then repeat this.';
  END IF;
  -- The lock waits for a store_arrivals that is under way, so that what is discarded is all.
  SELECT a.* INTO known FROM {cell}.payment_arrivals a
  WHERE a.bucket = begin_arrival.bucket AND a.version = begin_arrival.version FOR UPDATE;
  IF known.digest IS DISTINCT FROM begin_arrival.digest THEN
    IF known.taken_at IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('version %s of bucket %s is in force here with other participants or keys', begin_arrival.version,
          begin_arrival.bucket),
        HINT = 'Two cells gave one version: railhead cell status, then railhead cell settle.';
    END IF;
    DELETE FROM {cell}.payment_arrived_keys k
    WHERE k.bucket = begin_arrival.bucket AND k.version = begin_arrival.version;
    DELETE FROM {cell}.payment_arrived_participants p
    WHERE p.bucket = begin_arrival.bucket AND p.version = begin_arrival.version;
    DELETE FROM {cell}.payment_arrivals a
    WHERE a.bucket = begin_arrival.bucket AND a.version = begin_arrival.version;
    INSERT INTO {cell}.payment_arrivals (bucket, version, digest)
    VALUES (begin_arrival.bucket, begin_arrival.version, begin_arrival.digest);
    RETURN false;
  END IF;
  RETURN known.complete_at IS NOT NULL;
END
$$;
