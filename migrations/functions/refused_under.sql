-- refused_under(outbox_id uuid, rail_reference text) -> boolean
--   Whether the rail refused, under this very reference, what it was sent last, or the
--   payment since then: an execution under the same one contradicts it. False without a
--   reference, which could be of another send.
--   payment.History has the same rule.
-- reads:   payment_outbox_attempts, and what sends_of reads.   locks: nothing.
-- called by: record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.refused_under(outbox_id uuid, rail_reference text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts refusal
    WHERE refusal.outbox_id = $1 AND refusal.result IN ({refusing_results}) AND refusal.rail_reference = $2
      AND refusal.error_code IS DISTINCT FROM 'RESOLVED' -- an operator's word
      AND NOT EXISTS (
        SELECT FROM {cell}.sends_of($1) s
        WHERE NOT s.forgotten AND NOT s.denied
          AND s.attempt_no > coalesce(refusal.answers_attempt_no, refusal.attempt_no)))
$$;
