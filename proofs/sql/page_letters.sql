-- The dead letters of a page, and whether the log has an act of an operator that closed each as it is: one
-- since it was opened last, and since the payment failed last. The clocks of two servers may differ by a minute.
-- reopened: an open one says that the instruction was not paid, and an operator closed it after the last failure, without
-- evidence since that it was not paid.
-- misstated: the amount or the currency of an open one is that of no payload of the instruction.
SELECT d.outbox_id, d.reason, d.status, d.instruction_id, d.participant_id, d.rail_type,
  d.status NOT IN ('manual_replay', 'resolved') AND (
    SELECT d.amount IS NOT NULL AND bool_or(w.amount = d.amount) IS FALSE
      OR d.currency IS NOT NULL AND bool_or(w.currency = d.currency) IS FALSE
    FROM (
      SELECT CASE WHEN a.payload ->> 'amount' ~ '^[0-9]{1,30}([.][0-9]{1,10})?$' THEN (a.payload ->> 'amount')::numeric END AS amount,
        left(a.payload ->> 'currency', 20) AS currency
      FROM {cell}.v_outbox_attempts a WHERE a.outbox_id = d.outbox_id
      UNION ALL
      SELECT CASE WHEN p.payload ->> 'amount' ~ '^[0-9]{1,30}([.][0-9]{1,10})?$' THEN (p.payload ->> 'amount')::numeric END,
        left(p.payload ->> 'currency', 20)
      FROM {cell}.v_outbox_pending p WHERE p.outbox_id = d.outbox_id) w) AS misstated, EXISTS (
  SELECT FROM {cell}.payment_operator_log l
  WHERE l.outbox_id = d.outbox_id AND (l.act = 'RESOLVE' OR l.act = 'TRIAGE' AND l.subject = 'resolved')
    AND l.acted_at >= greatest(d.opened_at, (
      SELECT max(a.created_at) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = d.outbox_id AND a.state = 'FAILED' AND a.error_code IS DISTINCT FROM 'RESOLVED'))
      - interval '1 minute') AS closed_by_act,
  d.status NOT IN ('manual_replay', 'resolved') AND d.reason IN ('FAILED', 'EXPIRED') AND EXISTS (
    SELECT FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = d.outbox_id AND (l.act, l.subject) = ('TRIAGE', 'resolved')
      AND coalesce(l.detail ->> 'letter', d.reason) IN ('FAILED', 'EXPIRED')
      AND l.acted_at > (
        SELECT max(a.created_at) FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = d.outbox_id AND a.state = 'FAILED')
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_operator_log since
        WHERE since.outbox_id = d.outbox_id AND since.act = 'RESOLVE' AND since.acted_at > l.acted_at)) AS reopened
FROM {cell}.payment_dead_letters d
WHERE d.outbox_id >= $1 AND d.outbox_id <= $2
