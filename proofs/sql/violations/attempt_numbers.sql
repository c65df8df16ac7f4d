WITH numbered AS (
  SELECT a.outbox_id, a.attempt_no, row_number() OVER (PARTITION BY a.outbox_id ORDER BY a.attempt_no) AS place
  FROM {cell}.payment_outbox_attempts a
)
(SELECT DISTINCT ON (n.outbox_id) format('%s: row %s of its archive has attempt_no %s', n.outbox_id, n.place, n.attempt_no) AS violation
FROM numbered n
WHERE n.attempt_no <> n.place
ORDER BY n.outbox_id, n.place)
UNION ALL
SELECT format('%s: pending counts %s attempts and the archive has %s', p.outbox_id, p.attempt_count, a.n)
FROM {cell}.payment_outbox_pending p
CROSS JOIN LATERAL (SELECT count(*) AS n FROM {cell}.payment_outbox_attempts x WHERE x.outbox_id = p.outbox_id) a
WHERE p.attempt_count > a.n
