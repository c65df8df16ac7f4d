-- The payments in pending that expire soonest, as railhead_expiring_soon counts them: of certain
-- outcome, within 15 minutes, and pending for half a minute. Of each rail the first of them are
-- read. $1 the most to read of a rail, $2 limit
SELECT w.outbox_id, w.participant_id, w.rail_type, w.expires_at,
  (extract(epoch FROM w.expires_at - clock_timestamp()) * 1000)::bigint AS in_ms
FROM (
  SELECT e.outbox_id, e.participant_id, e.rail_type, e.expires_at, e.created_at
  FROM {cell}.payment_rails r
  CROSS JOIN LATERAL (
    SELECT p.outbox_id, p.participant_id, p.rail_type, p.expires_at, p.created_at
    FROM {cell}.payment_outbox_pending p
    WHERE p.rail_type = r.rail_type AND p.expires_at <= statement_timestamp() + interval '15 minutes'
      AND NOT p.outcome_unknown
      AND p.next_attempt_at < 'infinity'
    ORDER BY p.expires_at
    LIMIT $1) e) w
WHERE w.created_at <= statement_timestamp() - interval '30 seconds'
ORDER BY w.expires_at, w.outbox_id
LIMIT $2
