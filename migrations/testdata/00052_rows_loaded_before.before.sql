-- A cell whose rows were loaded: a claim of another transaction than the one that has written it, and a map that counts
-- as compared.
INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, attempt_no, state, claimed_at, worker_id, rail_type,
  participant_id, priority, enqueued_at, next_attempt_at, next_action, send_count, inquiry_count, outcome_unknown,
  provisional, xact)
VALUES (railhead.uuidv7(), railhead.uuidv7(), 1, 'DISPATCHING', now(), 'w', 'bank', 'p-1', 1, now(), now(), 'SEND', 1, 0, false,
  false, '5');
INSERT INTO railhead.payment_cell_checks (system_identifier, timeline, server_started_at, database_oid, table_oid, compared,
  gone, checked_at)
SELECT s.system_identifier::text, railhead.server_timeline(), pg_postmaster_start_time(), railhead.database_oid(),
  'railhead.payment_cell_checks'::regclass, '{}', '{}', '2026-01-01 00:00Z'
FROM pg_control_system() s;
