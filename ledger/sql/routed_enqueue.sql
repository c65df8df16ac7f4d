-- As enqueue, for callers that route by a map: a cell that is in no directory refuses. $1 to $10 as there
SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.differs
FROM (
  SELECT set_config('client_min_messages', CASE current_setting('client_min_messages') WHEN 'error' THEN 'warning'
    ELSE current_setting('client_min_messages') END, true) OFFSET 0) heard
CROSS JOIN {cell}.enqueue_payment_outbox({cell}.require_directory($1::text), $2, $3, $4, $5::jsonb, $6, $7, $8, $9::jsonb, $10) e
