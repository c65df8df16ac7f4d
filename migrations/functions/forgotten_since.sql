-- forgotten_since(outbox_id uuid) -> timestamptz
--   The earliest time at which a send that a restore forgot may have been claimed: the earliest
--   known_until of the suspensions that concern the instruction. Null if none does.
-- reads:   payment_outbox_keys, payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: rules_of_sends, rail_keeps_one_outcome, inquiry_said_not_executed.
CREATE OR REPLACE FUNCTION {cell}.forgotten_since(outbox_id uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT min(s.known_until)
    FROM {cell}.payment_outbox_keys k
    CROSS JOIN {cell}.payment_outbox_settings g
    JOIN {cell}.payment_outbox_suspensions s
      ON s.accepted_at IS NULL OR k.created_at < s.accepted_at + g.repeated_within
    WHERE k.outbox_id = $1);
END
$$;
