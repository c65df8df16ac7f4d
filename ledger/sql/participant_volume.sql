-- What a participant has enqueued since a moment, by currency, among its newest instructions. An
-- instruction whose order is not recorded apart from its rows has no currency here.
-- $1 participant_id, $2 instructions to read, $3 the window, in seconds
SELECT coalesce(m.currency, '') AS currency, count(*) AS instructions,
  coalesce(sum(CASE WHEN m.amount ~ '^[0-9]{1,30}([.][0-9]{1,10})?$' THEN m.amount::numeric END)::text, '') AS amount
FROM (
  SELECT i.currency, i.amount
  FROM (
    SELECT k.outbox_id, k.created_at
    FROM {cell}.payment_outbox_keys k
    WHERE k.participant_id = $1
    ORDER BY k.sequence_id DESC
    LIMIT $2) n
  LEFT JOIN LATERAL (
    SELECT o.amount, o.currency
    FROM {cell}.v_outbox_amounts o
    WHERE o.outbox_id = n.outbox_id
    LIMIT 1) i ON true
  WHERE n.created_at > clock_timestamp() - make_interval(secs => $3)) m
GROUP BY m.currency
ORDER BY m.currency
LIMIT 200
