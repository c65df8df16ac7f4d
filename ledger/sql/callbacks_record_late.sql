-- Records a report that a rail sent on its own initiative. $1 outbox_outcome as JSON
SELECT {cell}.record_callback($1::jsonb)
