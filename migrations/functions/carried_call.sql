-- carried_call(instruction_id text, participant_id text, idempotency_key text, print bytea, allow_second_key boolean)
--   -> (code text, message text, hint text, rule text, detail text, outbox_id uuid, sequence_id bigint,
--       created_at timestamptz)
--   What a call repeats that was made in another cell, before its participant was moved to this one. With the
--   same key and content code is null, and the others say what the first call was answered. Else code is RH001
--   for the same key with other content (print is the fingerprint), and RH007 for another key, where that is not
--   allowed. No row: nothing. A key of the participant itself goes before one of another participant.
-- reads:   payment_arrived_keys, by instruction_id; payment_arrivals.   writes, locks: nothing.
-- called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.carried_call(instruction_id text, participant_id text, idempotency_key text,
  print bytea, allow_second_key boolean)
RETURNS TABLE (code text, message text, hint text, rule text, detail text, outbox_id uuid, sequence_id bigint,
  created_at timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  first record;
BEGIN
  SELECT k.* INTO first
  FROM (
    SELECT k.* FROM {cell}.payment_arrived_keys k WHERE k.instruction_id = $1 COLLATE "C" OFFSET 0) k
  WHERE (k.idempotency_key = $3 COLLATE "C" OR k.participant_id = $2 COLLATE "C" AND NOT $5)
    AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = k.bucket AND a.version = k.version) IS NOT NULL
  ORDER BY k.idempotency_key = $3 COLLATE "C" AND k.participant_id = $2 COLLATE "C" DESC,
    k.participant_id = $2 COLLATE "C" DESC, k.created_at, k.outbox_id
  LIMIT 1;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF first.idempotency_key <> $3 COLLATE "C" THEN
    code := 'RH007';
    message := 'this instruction_id is already enqueued under another idempotency_key';
    hint := 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.';
    rule := 'ONE_KEY';
    detail := format('The first instruction is outbox_id %s, in another cell.', first.outbox_id);
  ELSIF first.participant_id <> $2 COLLATE "C" OR first.fingerprint <> $4 THEN
    code := 'RH001';
    message := 'this instruction_id and idempotency_key were first used with other content';
    hint := 'Repeat a call with exactly the content of the first one. A different payment needs its own instruction_id.';
    rule := 'SAME_CONTENT';
    detail := CASE WHEN first.participant_id = $2 COLLATE "C"
      THEN format('The first instruction is outbox_id %s, sequence_id %s, in another cell.', first.outbox_id,
        first.sequence_id)
      ELSE 'The first instruction belongs to another participant.' END;
  END IF;
  outbox_id := first.outbox_id;
  sequence_id := first.sequence_id;
  created_at := first.created_at;
  RETURN NEXT;
END
$$;
