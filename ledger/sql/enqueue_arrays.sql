-- Enqueues many instructions, one row for each item. It is a transaction of its own; heard is as in enqueue.sql.
-- $1 instruction_id, $2 participant_id, $3 idempotency_key, $4 rail_type, $5 payload, $6 not_before, $7 expires_at,
-- $8 priority, $9 headers, $10 send_once, each an array with one element for each item, $11 waits
SELECT e.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message,
  e.error_hint, e.differs, e.error_field, e.error_rule, e.error_detail
FROM (
  SELECT set_config('client_min_messages', CASE current_setting('client_min_messages') WHEN 'error' THEN 'warning'
    ELSE current_setting('client_min_messages') END, true) OFFSET 0) heard
CROSS JOIN {cell}.enqueue_payment_outbox_arrays($1, $2, $3, $4, $5::text[]::jsonb[], $6, $7, $8, $9::text[]::jsonb[],
  $10, $11) e
