-- forgotten_sends(outbox_id uuid) -> record (n, first_at, last_at)
--   The sends of the instruction that a restore forgot, as their workers have told
--   since: how many, and when the first and the last of them were claimed.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: replay_payment, inquiry_said_not_executed, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.forgotten_sends(
  outbox_id uuid, OUT n bigint, OUT first_at timestamptz, OUT last_at timestamptz) RETURNS record
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT count(*), min(a.claimed_at), max(a.claimed_at)
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.state = 'LATE_OUTCOME' AND a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL
    AND a.result IN ('EXECUTED', {reached_results})
$$;
