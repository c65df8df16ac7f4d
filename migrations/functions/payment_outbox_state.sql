-- payment_outbox_state(outbox_id uuid) -> text
--   The state of an instruction in one word, as callers see it. CONFLICT: a CONFLICT dead letter is
--   open (so that the payment is not made again under a new key). While the instruction is pending:
--   PENDING if it was never sent or is provably not executed, UNKNOWN if some send has no
--   trustworthy answer, ACCEPTED if the rail has accepted it and its final answer is outstanding.
--   Otherwise its last state that is not LATE_OUTCOME.
-- reads: payment_dead_letters, payment_outbox_pending, payment_outbox_attempts.
-- called by: owner's functions and views.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_state(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RETURN CASE
    WHEN EXISTS (
      SELECT FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = $1 AND d.reason = 'CONFLICT' AND d.status NOT IN ({closed_letters}))
      THEN 'CONFLICT'
    ELSE coalesce((
      SELECT CASE WHEN p.provisional THEN 'ACCEPTED' WHEN p.outcome_unknown THEN 'UNKNOWN' ELSE 'PENDING' END
      FROM {cell}.payment_outbox_pending p
      WHERE p.outbox_id = $1), (
      SELECT a.state::text
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1))
  END;
END
$$;
