-- payment_rail_key(namespace uuid, participant_id text, instruction_id text, idempotency_key text) -> uuid
--   The 128 bits by which a rail de-duplicates an instruction: the first half of the SHA-256 over
--   the cell's namespace, the participant, the instruction id and the idempotency key, separated by
--   the unit separator, which these can't contain. A repeated enqueue that a restore has forgotten
--   gets the same rail key. payment.DeriveRailKey computes the same in Go.
--
--   The function is one expression, which the planner inlines; see payment_outbox_fingerprint.
-- reads, writes, locks: nothing.   called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.payment_rail_key(namespace uuid, participant_id text, instruction_id text,
  idempotency_key text) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT pg_catalog.encode(pg_catalog.substring(pg_catalog.sha256(pg_catalog.convert_to(
    $1::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2
      OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $3
      OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $4, 'UTF8')), 1, 16), 'hex')::pg_catalog.uuid
$$;
