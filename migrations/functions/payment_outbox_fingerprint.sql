-- payment_outbox_fingerprint(participant_id text, rail_type text, payload jsonb) -> bytea
--   What makes two enqueues of one key "the same content": SHA-256 over
--   participant, rail and the text of the stored payload, separated by the unit
--   separator. payment.Fingerprint computes the same in Go.
-- reads, writes, locks: nothing.   called by: owner's functions, auditors' proofs.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_fingerprint(participant_id text, rail_type text, payload jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT sha256(convert_to($1 || chr(31) || $2 || chr(31) || $3::text, 'UTF8'))
$$;
