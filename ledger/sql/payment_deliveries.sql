-- How far the events of an instruction are delivered to each endpoint. $1 outbox_id
SELECT d.endpoint_id, d.paused_at, d.last_no, d.passed_no, d.attempt_no, d.event_type, d.tries, d.failed_at, d.next_at,
  d.last_status
FROM {cell}.payment_deliveries($1) d
