-- refuse_without_payload(outbox_id uuid) -> jsonb
--   Refuses to claim an instruction whose payload is nowhere: no row of it has one, as
--   when its month of payment_outbox_instructions was detached while it waited. Stands
--   where the payload would.
-- errors:  RH016, always. The claimer sets the row aside as UNCLAIMABLE; once the row of
--          payment_outbox_instructions is back, a replay makes it due again.
-- reads, locks: nothing.   called by: executor.
CREATE OR REPLACE FUNCTION {cell}.refuse_without_payload(outbox_id uuid) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'RH016',
    MESSAGE = format('payment_outbox_instructions has no row of outbox_id %s', outbox_id),
    HINT = 'It is set aside. Attach the partition of its month again, then replay it.';
END
$$;
