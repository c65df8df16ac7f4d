-- Migration 56, latest refusals of a payment. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function rail_refusals
CREATE OR REPLACE FUNCTION {cell}.rail_refusals(outbox_id uuid, next_action text) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH refused AS NOT MATERIALIZED (
      SELECT a.attempt_no, a.completed_at
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1
        AND (a.state = 'RETRYABLE' AND a.result = 'REFUSED_RAIL'
          OR a.state = 'UNKNOWN' AND a.error_code = 'RAIL_REFUSED')
        AND a.attempt_no > coalesce((
          SELECT r.attempt_no
          FROM {cell}.payment_outbox_attempts r
          WHERE r.outbox_id = $1 AND r.state = 'REPLAYED'
          ORDER BY r.attempt_no DESC
          LIMIT 1), 0)
        AND (SELECT c.next_action FROM {cell}.payment_outbox_attempts c WHERE c.outbox_id = $1
          AND c.attempt_no = a.answers_attempt_no) = $2
    ), told AS (
      (SELECT r.attempt_no, r.completed_at FROM refused r ORDER BY r.attempt_no LIMIT 1)
      UNION
      (SELECT r.attempt_no, r.completed_at FROM refused r ORDER BY r.attempt_no DESC LIMIT 99)
    )
    SELECT ARRAY(SELECT t.completed_at FROM told t ORDER BY t.attempt_no));
END
$$;
-- end of rail_refusals

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 56, serves 13'
$$;
-- end of schema_version
