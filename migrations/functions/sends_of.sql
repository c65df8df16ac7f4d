-- sends_of(outbox_id uuid) -> setof record (attempt_no, claimed_at, render_version, forgotten, executed, denied)
--   The sends of an instruction that may have reached the rail: its claims whose answer does not
--   prove that nothing left, and the sends that a restore forgot. A forgotten send is known from a
--   later row of its worker or of an inquiry about it, or because the rail refused the payment
--   before any known send may have left; in the last case its time is that of the refusal.
--   executed: a forgotten send that was executed, by its own answer. denied: a late answer, after
--   another one, reports that nothing left, and the rail has not refused the payment while that
--   send was in flight. payment.History implements the same rule.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: refusal_covers_all_sends, rules_of_sends, forgotten_sends, known_sends, standing_sends,
--          record_late_outcome, resolve_payment.
CREATE OR REPLACE FUNCTION {cell}.sends_of(
  outbox_id uuid, OUT attempt_no integer, OUT claimed_at timestamptz, OUT render_version text,
  OUT forgotten boolean, OUT executed boolean, OUT denied boolean) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  -- The rows are looked up in lists instead of one by one, because an instruction may have
  -- thousands.
  RETURN QUERY
  WITH a AS MATERIALIZED (
    SELECT t.* FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = $1
  ),
  claim AS MATERIALIZED (
    SELECT s.attempt_no, s.claimed_at, s.render_version,
      (s.attempt_no IN (
        SELECT n.answers_attempt_no FROM a n
          WHERE n.result IN ({left_nothing_results}) AND n.state <> 'LATE_OUTCOME')) IS TRUE AS not_left,
      (s.attempt_no IN (SELECT n.answers_attempt_no FROM a n
        WHERE n.result IN ({left_nothing_results}))) IS TRUE AS denied,
      (s.attempt_no IN (SELECT r.answers_attempt_no FROM a r WHERE r.result = 'REFUSED')) IS TRUE AS refused
    FROM a s
    WHERE s.state = 'DISPATCHING'
  )
  SELECT c.attempt_no, c.claimed_at, c.render_version, false, false, c.denied AND NOT c.refused
  FROM claim c
  WHERE NOT c.not_left
  UNION ALL
  SELECT f.attempt_no, coalesce(f.claimed_at, CASE WHEN f.result = 'REFUSED' THEN f.created_at END), f.render_version,
    true, f.result = 'EXECUTED', false
  FROM a f
  WHERE f.state = 'LATE_OUTCOME' AND f.answers_attempt_no IS NULL
    AND (f.result IN ('EXECUTED', {reached_results})
      OR f.claimed_at IS NOT NULL AND f.outcome_unknown AND f.result IN ({inquiry_results})
      OR f.result = 'REFUSED'
        AND f.attempt_no < coalesce((SELECT min(c.attempt_no) FROM claim c WHERE NOT c.denied OR c.refused),
        2147483647));
END
$$;
