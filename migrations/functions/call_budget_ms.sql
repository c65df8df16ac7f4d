-- call_budget_ms(profile jsonb) -> numeric
--   The longest that one call to the rail of a profile may take, in milliseconds: the sum of its
--   five timeouts, as rails.Timeouts.Total computes it. A timeout is text in Go's form (1m30s,
--   250ms); one that is missing or zero has its default. TestSameBudgetInGoAndSQL compares the two
--   implementations.
-- reads, writes, locks: nothing.   called by: keep_time_budget; executor, for the
--          calls of dead workers; auditor, for a proof.
CREATE OR REPLACE FUNCTION {cell}.call_budget_ms(profile jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT sum(coalesce(nullif(t.ms, 0), phase.standard_ms))
  FROM (VALUES ('connect', 3000), ('tls', 3000), ('write', 4000), ('response_header', 15000), ('body', 5000))
    AS phase (name, standard_ms)
  CROSS JOIN LATERAL (
    SELECT sum(part.found[1]::numeric * CASE part.found[2] COLLATE "C"
      WHEN 'h' THEN 3600000 WHEN 'm' THEN 60000 WHEN 's' THEN 1000 WHEN 'ms' THEN 1 WHEN 'ns' THEN 0.000001
      ELSE 0.001 END) AS ms -- us, and both code points of the Greek letter mu
    FROM regexp_matches(($1 -> 'timeouts' ->> phase.name) COLLATE "C", '([0-9.]+)([^0-9.]+)', 'g') AS part (found)) AS t
$$;
