-- sends_of(outbox_id uuid) -> setof record (attempt_no, claimed_at, render_version, forgotten, executed, denied)
--   The sends of an instruction that may have reached the rail: its claims whose answer
--   does not prove that nothing left, and those that a restore forgot, as their workers
--   have told since, or those of inquiries about them, or that the rail has refused before
--   there was any of ours that may have left: those have the time at which it was told.
--   executed: a forgotten one, by its own answer. denied: a word that came late, after
--   another answer, says that nothing left, and the rail has not refused the payment while
--   that send was out.
--   payment.History has the same rule.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: refusal_is_whole, forgotten_sends, known_sends, standing_sends, record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.sends_of(
  outbox_id uuid, OUT attempt_no integer, OUT claimed_at timestamptz, OUT render_version text,
  OUT forgotten boolean, OUT executed boolean, OUT denied boolean) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT s.attempt_no, s.claimed_at, s.render_version, false, false, EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts late
    WHERE late.outbox_id = $1 AND late.answers_attempt_no = s.attempt_no AND late.result IN ({left_nothing_results}))
    AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts refused
    WHERE refused.outbox_id = $1 AND refused.answers_attempt_no = s.attempt_no AND refused.result = 'REFUSED')
  FROM {cell}.payment_outbox_attempts s
  WHERE s.outbox_id = $1 AND s.state = 'DISPATCHING' AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts answer
    WHERE answer.outbox_id = $1 AND answer.answers_attempt_no = s.attempt_no AND answer.state <> 'LATE_OUTCOME'
      AND answer.result IN ({left_nothing_results}))
  UNION ALL
  SELECT f.attempt_no, coalesce(f.claimed_at, CASE WHEN f.result = 'REFUSED' THEN f.created_at END), f.render_version, true, f.result = 'EXECUTED', false
  FROM {cell}.payment_outbox_attempts f
  WHERE f.outbox_id = $1 AND f.state = 'LATE_OUTCOME' AND f.answers_attempt_no IS NULL
    AND (f.result IN ('EXECUTED', {reached_results})
      OR f.claimed_at IS NOT NULL AND f.outcome_unknown AND f.result IN ({inquiry_results})
      OR f.result = 'REFUSED' AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts s
        WHERE s.outbox_id = $1 AND s.state = 'DISPATCHING' AND s.attempt_no < f.attempt_no AND (
          NOT EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts answer
            WHERE answer.outbox_id = $1 AND answer.answers_attempt_no = s.attempt_no
              AND answer.result IN ({left_nothing_results}))
          OR EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts refused
            WHERE refused.outbox_id = $1 AND refused.answers_attempt_no = s.attempt_no AND refused.result = 'REFUSED'))))
$$;
