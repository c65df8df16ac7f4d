-- Enqueues one instruction. It is a transaction of its own. The warning that the commit may not be
-- on its standby has to reach the client whatever the settings of the login are; for this it sets
-- client_min_messages until its end.
-- $1 instruction_id, $2 participant_id, $3 idempotency_key, $4 rail_type, $5 payload,
-- $6 not_before, $7 expires_at, $8 priority, $9 headers, $10 send_once
SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.differs
FROM (
  SELECT set_config('client_min_messages', CASE current_setting('client_min_messages') WHEN 'error' THEN 'warning'
    ELSE current_setting('client_min_messages') END, true) OFFSET 0) heard
CROSS JOIN {cell}.enqueue_payment_outbox($1, $2, $3, $4, $5::jsonb, $6, $7, $8, $9::jsonb, $10) e
