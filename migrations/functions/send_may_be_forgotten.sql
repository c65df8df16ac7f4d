-- send_may_be_forgotten(outbox_id uuid) -> boolean
--   Whether a restore may have forgotten a send of the instruction: a suspension is
--   open, or one has ended and the instruction was enqueued before the time was over
--   in which callers repeat calls that were forgotten.
-- reads:   payment_outbox_keys, payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: refusal_is_whole, record_late_outcome. payment.Claim.Weigh has the same rule.
CREATE OR REPLACE FUNCTION {cell}.send_may_be_forgotten(outbox_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM {cell}.payment_outbox_keys k
    CROSS JOIN {cell}.payment_outbox_settings g
    JOIN {cell}.payment_outbox_suspensions s
      ON s.accepted_at IS NULL OR k.created_at < s.accepted_at + g.repeated_within
    WHERE k.outbox_id = $1)
$$;
