-- The trace context of the call that enqueued an instruction; null if there is none. $1 outbox_id
SELECT {cell}.payment_trace($1)
