-- rests_on_acceptance(outbox_id uuid) -> boolean
--   Whether an instruction counts as executed only by the answers to its sends, in time or late,
--   although, by the meaning that acceptances had when the sends were made (acceptance_of_sends),
--   these are not final: no report, and no answer to a known inquiry, confirms the execution. For a
--   late answer, no row records which of the two results of BY_ANSWER it was.
-- reads:   payment_outbox_attempts, and what acceptance_of_sends reads.   locks: nothing.
-- called by: record_late_outcome, answer_open_claim. payment.History implements the same rule.
CREATE OR REPLACE FUNCTION {cell}.rests_on_acceptance(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT last.state = 'DISPATCHED' AND last.error_code IS DISTINCT FROM 'RESOLVED'
        AND (last.result = 'ACCEPTED' OR said.late_own) AND NOT said.proven
        AND {cell}.is_only_taken({cell}.acceptance_of_sends($1), CASE WHEN said.late_own THEN 'ACCEPTED'
          ELSE last.result END)
      FROM {cell}.payment_outbox_attempts last
      CROSS JOIN (
        SELECT coalesce(bool_or(e.proves), false) AS proven,
          coalesce(bool_or(e.state = 'LATE_OUTCOME' AND NOT e.proves), false) AS late_own
        FROM (
          SELECT a.state, CASE WHEN a.answers_attempt_no IS NULL THEN a.claimed_at IS NULL
            ELSE claim.state = 'INQUIRING' END AS proves
          FROM {cell}.payment_outbox_attempts a
          LEFT JOIN {cell}.payment_outbox_attempts claim ON claim.outbox_id = $1
            AND claim.attempt_no = a.answers_attempt_no
          WHERE a.outbox_id = $1 AND a.result = 'EXECUTED' AND a.error_code IS DISTINCT FROM 'RESOLVED') e) said
      WHERE last.outbox_id = $1 AND last.state <> 'LATE_OUTCOME'
      ORDER BY last.attempt_no DESC
      LIMIT 1), false));
END
$$;
