-- payment_outbox_fingerprint(participant_id text, rail_type text, payload jsonb) -> bytea
--   What makes two enqueues of one key "the same content": SHA-256 over
--   participant, rail and the text of the stored payload, separated by the unit
--   separator. payment.Fingerprint computes the same in Go.
--
--   One expression that the planner puts in the caller's place. For that it has no
--   search_path of its own, every name in it is qualified, and it is no more than
--   STABLE, as convert_to is.
-- reads, writes, locks: nothing.   called by: owner's functions, auditor, for a proof.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_fingerprint(participant_id text, rail_type text, payload jsonb) RETURNS bytea
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT pg_catalog.sha256(pg_catalog.convert_to(
    $1 OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2
      OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $3::pg_catalog.text, 'UTF8'))
$$;
