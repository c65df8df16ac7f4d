-- gate_mark(scope text, name text) -> uuid
--   The mark of a closed gate in payment_outbox_rules: the first half of the SHA-256 over its scope
--   and name, separated by the unit separator. It has the same length for every name, so that the
--   row stays within its page.
--
--   The function is one expression, which the planner inlines; see payment_outbox_fingerprint.
-- reads, writes, locks: nothing.   called by: enqueue_is_closed, refresh_outbox_rules.
CREATE OR REPLACE FUNCTION {cell}.gate_mark(scope text, name text) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT pg_catalog.encode(pg_catalog.substring(pg_catalog.sha256(pg_catalog.convert_to(
    $1 OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2, 'UTF8')), 1, 16), 'hex')::pg_catalog.uuid
$$;
