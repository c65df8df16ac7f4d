-- thaw_bucket(bucket integer, reason text) -> boolean
--   Ends the move of a bucket that was not given yet: the counters of its participants are put back, and
--   this cell takes them again from the commit on. Returns false if the bucket is not being moved.
-- errors:  RH002 no reason; RH020 the map was not compared (require_confirmed_map); 25001 above READ
--          COMMITTED; 55P03 after 5 s of waiting for a lock.
-- reads:   what require_confirmed_map reads.
-- writes:  payment_buckets, payment_bucket_moves, payment_packed_participants, participant_outbox_sequences,
--          payment_outbox_rules by its trigger, payment_operator_log.
-- locks:   the bucket's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.thaw_bucket(bucket integer, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  held {cell}.payment_buckets;
  taker text;
BEGIN
  PERFORM {cell}.require_reason(thaw_bucket.reason);
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_confirmed_map('ending a move');
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = thaw_bucket.bucket FOR UPDATE;
  IF NOT FOUND OR NOT held.mine OR NOT {cell}.bucket_is_leaving(held.version, held.leaving) THEN
    RETURN false;
  END IF;
  UPDATE {cell}.payment_buckets b SET leaving = NULL WHERE b.bucket = held.bucket;
  INSERT INTO {cell}.participant_outbox_sequences (participant_id, next_sequence_id, moved_in)
  SELECT p.participant_id, p.next_sequence_id, p.moved_in FROM {cell}.payment_packed_participants p
  WHERE p.bucket = held.bucket AND p.version = held.leaving
  ORDER BY p.participant_id;
  DELETE FROM {cell}.payment_packed_participants p WHERE p.bucket = held.bucket AND p.version = held.leaving;
  DELETE FROM {cell}.payment_bucket_moves m WHERE m.bucket = held.bucket AND m.version = held.leaving
  RETURNING m.cell INTO STRICT taker;
  PERFORM {cell}.log_operator_act('THAW_BUCKET', taker, NULL, thaw_bucket.reason,
    jsonb_build_object('bucket', held.bucket, 'version', held.leaving));
  RETURN true;
END
$$;
