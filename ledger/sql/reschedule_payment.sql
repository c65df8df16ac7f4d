-- Changes the due time of a pending instruction. $1 outbox_id, $2 due_at, $3 reason, $4 the due time from now, in place of
-- due_at. Both null: now
SELECT r.was_due_at, r.is_due_at FROM {cell}.reschedule_payment($1, coalesce($2, clock_timestamp() + $4::interval), $3) r
