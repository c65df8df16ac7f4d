-- The registry rows of a page: $1 <= outbox_id <= $2. An id has the time of the enqueue; one of a time
-- before that was changed.
SELECT k.outbox_id, k.instruction_id, k.idempotency_key, k.participant_id, k.sequence_id,
  to_timestamp(('x' || substr(replace(k.outbox_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
    < k.created_at - interval '1 day' AS backdated
FROM {cell}.payment_outbox_keys k
WHERE k.outbox_id >= $1 AND k.outbox_id <= $2
