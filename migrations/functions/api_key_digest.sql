-- api_key_digest(participant_id text, idempotency_key text) -> text
--   What the registry stores in place of an HTTP caller's idempotency key: 'api-' and SHA-256 over
--   participant and key, separated by the unit separator. Two participants that use the same keys
--   neither collide nor can detect each other.
--
--   The function is one expression, which the planner inlines; see payment_outbox_fingerprint.
-- reads, writes, locks: nothing.   called by: api_enqueue, carried_key.
CREATE OR REPLACE FUNCTION {cell}.api_key_digest(participant_id text, idempotency_key text) RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT 'api-' OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
    $1 OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2, 'UTF8')), 'hex')
$$;
