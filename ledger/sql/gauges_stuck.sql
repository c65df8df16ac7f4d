-- Claimed instructions without an answer in claims older than the claim timeout.
-- $1 members that are looked at; the sub-queries with LIMIT can't become joins.
SELECT count(*)
FROM (
  SELECT m.outbox_id, m.attempt_no
  FROM {cell}.payment_outbox_settings s
  JOIN {cell}.payment_outbox_claims c ON c.claimed_at <= clock_timestamp() - s.claim_timeout_ms * interval '1 millisecond'
  CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
  WHERE s.singleton
  LIMIT $1) f
WHERE {is_open f}
