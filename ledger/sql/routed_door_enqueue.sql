-- As door_enqueue, for a process that serves several cells: a cell that is in no directory refuses. $1 to $14 as there
SELECT e.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message,
  e.error_hint, e.differs, e.error_field, e.error_rule, e.error_detail
FROM (
  SELECT set_config('client_min_messages', CASE current_setting('client_min_messages') WHEN 'error' THEN 'warning'
    ELSE current_setting('client_min_messages') END, true) OFFSET 0) heard
CROSS JOIN {cell}.api_enqueue($1, $2, {cell}.require_directory($3::text[]), $4, $5, $6, $7::text[]::jsonb[],
  $8, $9, $10, $11::text[]::jsonb[], $12, $13, $14) e
