-- refuse_foreign_participant() -> trigger
--   Locks the bucket of a participant that enqueues here for the first time, and refuses it if the
--   cell no longer takes the bucket, or is moving it to another one. An enqueue has checked the map by its snapshot, which may be
--   older than the map. The lock makes the first instruction of a participant and a change of the
--   bucket wait for each other, so that give_buckets sees every participant that there will be. Once the
--   counters of a bucket were packed (pack_bucket), every instruction of its participants is refused here.
-- errors:  40001 if the cell does not take the bucket, or above READ COMMITTED if its row has changed
--          since the snapshot.
-- reads:   payment_buckets.   writes: nothing.
-- locks:   the row of the bucket in share mode, until the transaction ends.
-- called by: the trigger of participant_outbox_sequences.
CREATE OR REPLACE FUNCTION {cell}.refuse_foreign_participant() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  of_new CONSTANT integer := {cell}.cell_bucket(NEW.participant_id);
  mine   boolean;
BEGIN
  SELECT b.mine AND NOT {cell}.bucket_is_leaving(b.version, b.leaving) INTO STRICT mine FROM {cell}.payment_buckets b
  WHERE b.bucket = of_new
  FOR SHARE;
  IF NOT mine THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'the bucket of the participant was given to another cell meanwhile, or is being moved to one', HINT = 'Retry the transaction.';
  END IF;
  RETURN NULL;
END
$$;
