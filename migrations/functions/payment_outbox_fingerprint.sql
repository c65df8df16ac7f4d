-- payment_outbox_fingerprint(participant_id text, rail_type text, payload jsonb) -> bytea
--   The fingerprint by which two enqueues of one key have the same content: SHA-256 over
--   participant, rail and the text of the stored payload, separated by the unit separator.
--   payment.Fingerprint computes the same in Go.
--
--   The function is one expression, which the planner inlines. It therefore sets no search_path,
--   qualifies every name in it, and is only STABLE, as convert_to is.
-- reads, writes, locks: nothing.   called by: owner's functions, auditor, for a proof.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_fingerprint(participant_id text, rail_type text, payload jsonb)
  RETURNS bytea
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT pg_catalog.sha256(pg_catalog.convert_to(
    $1 OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2
      OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $3::pg_catalog.text, 'UTF8'))
$$;
