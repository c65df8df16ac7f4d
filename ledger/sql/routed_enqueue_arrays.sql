-- As enqueue_arrays, for callers that route by a map: a cell that is in no directory refuses. $1 to $11 as there
SELECT e.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message,
  e.error_hint, e.differs, e.error_field, e.error_rule, e.error_detail
FROM (
  SELECT set_config('client_min_messages', CASE current_setting('client_min_messages') WHEN 'error' THEN 'warning'
    ELSE current_setting('client_min_messages') END, true) OFFSET 0) heard
CROSS JOIN {cell}.enqueue_payment_outbox_arrays({cell}.require_directory($1::text[]), $2, $3, $4, $5::text[]::jsonb[],
  $6, $7, $8, $9::text[]::jsonb[], $10, $11) e
