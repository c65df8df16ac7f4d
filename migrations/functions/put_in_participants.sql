-- put_in_participants() -> trigger
--   Puts the participants of a bucket that this cell begins to take into use: each goes on with the highest
--   next number that is known here, whether it arrived from another cell or was packed here. moved_in says to
--   an enqueue that has locked the row that keys may have come with it.
-- reads:   payment_arrived_participants, payment_arrivals, payment_packed_participants.
-- writes:  participant_outbox_sequences.
-- locks:   the participants' rows.   called by: the trigger of payment_buckets.
CREATE OR REPLACE FUNCTION {cell}.put_in_participants() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id, moved_in)
  SELECT p.participant_id, max(p.next_sequence_id), true
  FROM (
    SELECT a.participant_id, a.next_sequence_id
    FROM {cell}.payment_arrived_participants a
    JOIN {cell}.payment_arrivals v ON v.bucket = a.bucket AND v.version = a.version AND v.taken_at IS NOT NULL
    WHERE a.bucket = NEW.bucket
    UNION ALL
    SELECT k.participant_id, k.next_sequence_id FROM {cell}.payment_packed_participants k WHERE k.bucket = NEW.bucket) p
  GROUP BY p.participant_id
  ORDER BY p.participant_id
  ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
  DO UPDATE SET next_sequence_id = greatest(s.next_sequence_id, excluded.next_sequence_id), moved_in = true;
  RETURN NULL;
END
$$;
