-- Takes many instructions, one row an item. $1 items, a JSON array
SELECT e.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message, e.error_hint, e.differs, e.error_field, e.error_rule, NULL::text
FROM {cell}.enqueue_payment_outbox_batch($1::jsonb) e
ORDER BY e.item
