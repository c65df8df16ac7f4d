-- may_be_forgotten_until(outbox_id uuid) -> timestamptz
--   The latest time at which a send that a restore forgot may have been claimed: the time when the
--   last suspension was opened that concerns the instruction. Null if none does.
-- reads:   payment_outbox_keys, payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: send_may_be_forgotten, inquiry_said_not_executed, answer_open_claim, just_replayed,
--          resolve_payment. payment.Claim.Weigh implements the same rule.
CREATE OR REPLACE FUNCTION {cell}.may_be_forgotten_until(outbox_id uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT max(s.opened_at)
    FROM {cell}.payment_outbox_keys k
    CROSS JOIN {cell}.payment_outbox_settings g
    JOIN {cell}.payment_outbox_suspensions s
      ON s.accepted_at IS NULL OR k.created_at < s.accepted_at + g.repeated_within
    WHERE k.outbox_id = $1);
END
$$;
