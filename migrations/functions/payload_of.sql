-- payload_of(outbox_id uuid, OUT payload jsonb, OUT headers jsonb) -> record
--   What the next send of an instruction would have: the payload of its row in pending, else that of
--   its newest row of the archive with one, else the one that was enqueued. Both are null if no row
--   has a payload.
-- reads:   payment_outbox_instructions.   locks: nothing.
-- called by: reveal_payload, revealed_payload, payload_form.
CREATE OR REPLACE FUNCTION {cell}.payload_of(outbox_id uuid, OUT payload jsonb, OUT headers jsonb) RETURNS record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  SELECT p.payload, p.headers INTO payload_of.payload, payload_of.headers
  FROM {cell}.v_outbox_pending p
  WHERE p.outbox_id = payload_of.outbox_id AND p.payload IS NOT NULL;
  IF FOUND THEN
    RETURN;
  END IF;
  SELECT a.payload, a.headers INTO payload_of.payload, payload_of.headers
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id = payload_of.outbox_id AND a.payload IS NOT NULL
  ORDER BY a.attempt_no DESC
  LIMIT 1;
  IF FOUND THEN
    RETURN;
  END IF;
  SELECT i.payload, i.headers INTO payload_of.payload, payload_of.headers
  FROM {cell}.payment_outbox_instructions i
  WHERE i.outbox_id = payload_of.outbox_id;
END
$$;
