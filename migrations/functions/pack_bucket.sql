-- pack_bucket(bucket integer) -> (version integer, participants integer, keys bigint, digest text)
--   Packs the participants of a bucket that is being moved: their counters leave
--   participant_outbox_sequences, which waits for every transaction that has allocated a number. One that
--   has passed the check of the map and has not, finds no counter then, and inserting one is refused by
--   refuse_foreign_participant. So their keys are final, and digest says which they are. A repeated call
--   answers the same. Payments stay in this cell, which completes them. A transaction that has checked the map
--   before may go on after the bucket came back: it finds a counter that says moved_in, and looks for its
--   key among those that came with it.
--   The digest covers each key's fingerprint: who knows all of a payload but an account finds that by trying. Only
--   a transaction that has written nothing packs, so that the operator log has who froze the bucket, and
--   why, also where the packing is rolled back.
-- errors:  RH020 the transaction has written something, the bucket is not being moved, the map was not
--          compared (require_confirmed_map), a participant is paused or its gate is closed, which would not
--          hold in the other cell, or a rail orders its payments and one is not resolved, which the other
--          cell would overtake; 25001 above READ COMMITTED; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_buckets; participant_outbox_sequences, every row once; payment_outbox_pending, payment_outbox_claims,
--          payment_dead_letters, payment_outbox_attempts, payment_operator_log, payment_rails, payment_rail_profiles, payment_paused_participants,
--          payment_closed_gates, and what moved_digest and require_confirmed_map read.
-- writes:  participant_outbox_sequences, payment_packed_participants, payment_bucket_moves,
--          payment_operator_log.
-- locks:   the bucket's row, then the participants' rows.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.pack_bucket(bucket integer, OUT version integer, OUT participants integer,
  OUT keys bigint, OUT digest text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  held {cell}.payment_buckets;
  move {cell}.payment_bucket_moves;
  those text[] COLLATE "C"; -- the bucket's participants
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the transaction has written something: it could still take back the row of the operator log',
      HINT = 'Commit freeze_bucket first, then call pack_bucket in a transaction of its own.';
  END IF;
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_confirmed_map('moving buckets');
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = pack_bucket.bucket FOR UPDATE;
  IF NOT FOUND OR NOT held.mine OR NOT {cell}.bucket_is_leaving(held.version, held.leaving) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('bucket %s is not being moved', pack_bucket.bucket),
      HINT = 'Begin with railhead cell move.';
  END IF;
  SELECT m.* INTO STRICT move FROM {cell}.payment_bucket_moves m
  WHERE m.bucket = held.bucket AND m.version = held.leaving;
  IF move.digest IS NULL THEN
    -- Refused before it has done anything, where that is known: a caller tries it again and again.
    PERFORM {cell}.require_movable(held.bucket);
    SELECT array_agg(l.participant_id) INTO those
    FROM (
      SELECT s.participant_id FROM {cell}.participant_outbox_sequences s
      WHERE {cell}.cell_bucket(s.participant_id) = held.bucket
      ORDER BY s.participant_id FOR UPDATE) l;
    -- New statements: they see everything that the locks have waited for. No participant can have been added: the
    -- freeze has waited for the transactions of first instructions, and refuses them since.
    WITH gone AS (
      DELETE FROM {cell}.participant_outbox_sequences s
      WHERE s.participant_id = ANY (those)
      RETURNING s.participant_id, s.next_sequence_id, s.moved_in
    )
    INSERT INTO {cell}.payment_packed_participants (bucket, version, participant_id, next_sequence_id, moved_in)
    SELECT held.bucket, held.leaving, g.participant_id, g.next_sequence_id, g.moved_in FROM gone g;
    PERFORM {cell}.require_movable(held.bucket);
    UPDATE {cell}.payment_bucket_moves m
    SET participants = d.participants, keys = d.keys, digest = d.digest, packed_at = clock_timestamp()
    FROM {cell}.moved_digest(held.bucket, held.leaving, false) d
    WHERE m.bucket = held.bucket AND m.version = held.leaving
    RETURNING m.* INTO STRICT move;
    PERFORM {cell}.log_operator_act('PACK_BUCKET', move.cell, NULL, move.reason,
      jsonb_build_object('bucket', move.bucket, 'version', move.version, 'participants', move.participants,
        'keys', move.keys, 'digest', move.digest));
  END IF;
  version := move.version;
  participants := move.participants;
  keys := move.keys;
  digest := move.digest;
END
$$;
