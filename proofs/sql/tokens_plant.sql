-- The rows for the calls of tokens.sql: an instruction of one participant, and tokens of it and of
-- another. The transaction is rolled back.
INSERT INTO {cell}.payment_outbox_keys (outbox_id, rail_key, sequence_id, instruction_id, idempotency_key,
  participant_id, fingerprint)
VALUES ('01920000-0000-7000-8000-00000000cafe', gen_random_uuid(), 1, 'railhead_prove', 'railhead_prove',
  'railhead_prove_2', sha256(''));
INSERT INTO {cell}.payment_api_tokens (token_digest, token_id, name, participants, verbs, created_at, expires_at,
  revoked_at)
SELECT sha256(t.token), left(encode(sha256(t.token), 'hex'), 16), 'railhead_prove', ARRAY[t.participant], t.verbs,
  now() - interval '1 hour', t.expires_at, t.revoked_at
FROM (VALUES
  (sha256('another'), 'railhead_prove_1', ARRAY['ENQUEUE', 'READ', 'CANCEL'], now() + interval '1 hour',
    NULL::timestamptz),
  (sha256('own'), 'railhead_prove_2', ARRAY['ENQUEUE', 'READ', 'CANCEL'], now() + interval '1 hour', NULL),
  (sha256('expired'), 'railhead_prove_2', ARRAY['ENQUEUE', 'READ', 'CANCEL'], now() - interval '1 minute', NULL),
  (sha256('revoked'), 'railhead_prove_2', ARRAY['ENQUEUE', 'READ', 'CANCEL'], now() + interval '1 hour', now()),
  (sha256('no verb'), 'railhead_prove_2', ARRAY['READ'], now() + interval '1 hour', NULL)) AS t(token, participant,
  verbs, expires_at, revoked_at)
