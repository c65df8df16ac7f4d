-- api_attempts(token_sha256 bytea, certificate bytea, outbox_id uuid, after integer, rows_max integer)
--   -> (attempt_no integer, state text, created_at, claimed_at, completed_at timestamptz, answers_attempt_no integer,
--       result text, rail_reference text, rail_code text, error_code text, latency_ms integer)
--   The archive's rows of an instruction of one of the token's participants, from the row after the
--   number after, at most rows_max of them (1 to 200). They contain no payload, and no free text of
--   the rail or of an operator.
-- errors:  RH030 the token is not in force, RH031 it is not for reading, RH010 the instruction
--          does not exist, or is another participant's, RH020 it is in another cell (require_api_payment), 25001 above
--          READ COMMITTED.
-- reads:   payment_outbox_attempts, and what require_api_payment reads.   locks: nothing.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_attempts(token_sha256 bytea, certificate bytea, outbox_id uuid, after integer,
  rows_max integer)
RETURNS TABLE (attempt_no integer, state text, created_at timestamptz, claimed_at timestamptz, completed_at timestamptz,
  answers_attempt_no integer,
  result text, rail_reference text, rail_code text, error_code text, latency_ms integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
  PERFORM {cell}.require_api_payment(token_sha256, certificate, 'READ', api_attempts.outbox_id);
  RETURN QUERY
  SELECT a.attempt_no, a.state::text, a.created_at, a.claimed_at, a.completed_at, a.answers_attempt_no, a.result,
    a.rail_reference, a.rail_code, a.error_code, a.latency_ms
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = api_attempts.outbox_id AND a.attempt_no > coalesce(api_attempts.after, 0)
  ORDER BY a.attempt_no
  LIMIT least(greatest(coalesce(api_attempts.rows_max, 100), 1), 200);
END
$$;
