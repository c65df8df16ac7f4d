-- Records what a rail reported by itself. $1 outbox_outcome as JSON
SELECT {cell}.record_callback($1::jsonb)
