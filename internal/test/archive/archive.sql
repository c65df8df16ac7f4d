-- Puts finished instructions into keys and archive, as if they had been enqueued,
-- claimed and accepted in the course of this month. $1 first, $2 last number,
-- $3 how many there will be in all, $4 what is added to a number for its name, $5 their rail.
--
-- It writes past the functions, as superuser: a million through them would take
-- minutes and leave the same rows.
WITH made AS MATERIALIZED (
  SELECT m.n, m.at, left(md5((m.n + $4::integer)::text), 16) || '-' || m.n + $4::integer AS name,
    encode(int8send((floor(extract(epoch FROM m.at) * 1000)::bigint << 16) | 28672 | (m.n % 4096))
      || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid AS outbox_id,
    'participant-' || lpad((m.n % 1000)::text, 4, '0') AS participant_id,
    jsonb_build_object('amount', '10.50', 'currency', 'EUR', 'purpose', 'SUPP', 'reference', 'archive ' || m.n,
      'debtor', jsonb_build_object('name', 'Example Trading Ltd', 'account', 'DE89370400440000000000'),
      'creditor', jsonb_build_object('name', 'Sample Supplies BV', 'account', 'NL91ABNA' || lpad(m.n::text, 10, '0'))) AS payload
  FROM (
    SELECT g.n, date_trunc('month', now(), 'UTC') + (now() - date_trunc('month', now(), 'UTC')) * (g.n::double precision / $3::integer) AS at
    FROM generate_series($1::integer, $2::integer) AS g(n)) m
),
keys AS (
  INSERT INTO railhead.payment_outbox_keys
    (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key, created_at)
  SELECT m.outbox_id, m.name, 'key-' || m.name, m.participant_id, m.n / 1000 + 1, sha256(m.n::text::bytea), gen_random_uuid(), m.at
  FROM made m
),
instructions AS (
  INSERT INTO railhead.payment_outbox_instructions (outbox_id, priority, rail_type, headers, payload)
  SELECT m.outbox_id, 1, $5::text, '{}', m.payload
  FROM made m
  ORDER BY 1
)
INSERT INTO railhead.payment_outbox_attempts
  (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state,
   answers_attempt_no, claimed_at, completed_at, created_at, result, rail_reference, latency_ms, worker_id, profile_version, render_version,
   outcome_unknown, provisional, priority, enqueued_at, next_attempt_at, next_action, send_count, inquiry_count)
SELECT gen_random_uuid(), m.outbox_id, m.participant_id, $5::text, 1, 'DISPATCHING'::railhead.outbox_attempt_state,
  NULL::integer, m.at, NULL::timestamptz, m.at, NULL, NULL, NULL::integer, 'archive-worker', 1, 'noop/1',
  false, false, 1, m.at, m.at, 'SEND', 0, 0
FROM made m
UNION ALL
SELECT gen_random_uuid(), m.outbox_id, NULL, $5::text, 2, 'DISPATCHED',
  1, m.at, m.at, m.at, 'ACCEPTED', 'noop-rh' || replace(m.outbox_id::text, '-', ''), 3, 'archive-worker', 1, 'noop/1',
  false, false, NULL, NULL, NULL, NULL, NULL, NULL
FROM made m
ORDER BY 2, 5
