-- rests_on_evidence(row payment_outbox_attempts) -> boolean
--   Whether the row rests on an operator's evidence and not on the rail's statement: it is a
--   resolution, or a resolution that agreed with it followed before the next row that is not
--   LATE_OUTCOME.
-- reads:   payment_outbox_attempts, payment_operator_log.   locks: nothing.
-- called by: payment_certainty. Timeline.testimonyOf implements the same rule.
CREATE OR REPLACE FUNCTION {cell}.rests_on_evidence(attempt {cell}.payment_outbox_attempts) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce($1.error_code = 'RESOLVED', false) OR EXISTS (
    SELECT FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1.outbox_id AND l.act = 'RESOLVE' AND l.acted_at >= $1.created_at
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts n
        WHERE n.outbox_id = $1.outbox_id AND n.attempt_no > $1.attempt_no AND n.state <> 'LATE_OUTCOME'
          AND n.created_at <= l.acted_at))
$$;
