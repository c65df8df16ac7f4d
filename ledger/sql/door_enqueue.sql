-- Enqueues instructions for callers over HTTP, one row for each item. It is a transaction of its own; heard is as in
-- enqueue.sql.
-- $1 SHA-256 of the token, $2 of its certificate's key, $3 instruction_id, $4 participant_id, $5 idempotency_key,
-- $6 rail_type, $7 payload, $8 not_before, $9 expires_at, $10 priority, $11 headers, $12 send_once, $13 principal,
-- each an array with one element for each item, $14 waits
SELECT e.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message,
  e.error_hint, e.differs, e.error_field, e.error_rule, e.error_detail
FROM (
  SELECT set_config('client_min_messages', CASE current_setting('client_min_messages') WHEN 'error' THEN 'warning'
    ELSE current_setting('client_min_messages') END, true) OFFSET 0) heard
CROSS JOIN {cell}.api_enqueue($1, $2, $3, $4, $5, $6, $7::text[]::jsonb[], $8, $9, $10, $11::text[]::jsonb[], $12, $13,
  $14) e
