-- refuse_without_payload(outbox_id uuid) -> jsonb
--   Refuses to claim an instruction of which no row has a payload, for example because its month of
--   payment_outbox_instructions was detached while it was pending. The call takes the place of the
--   payload.
-- errors:  RH016, always. The claimer quarantines the row as UNCLAIMABLE; once the row of
--          payment_outbox_instructions is restored, a replay makes it due again.
-- reads, locks: nothing.   called by: executor.
CREATE OR REPLACE FUNCTION {cell}.refuse_without_payload(outbox_id uuid) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'RH016',
    MESSAGE = format('payment_outbox_instructions has no row for outbox_id %s', outbox_id),
    HINT = 'It is quarantined. Attach the partition of its month again, then replay it.';
END
$$;
