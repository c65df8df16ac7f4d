-- Claimed instructions without an answer whose claim is older than the claim timeout. Sub-queries
-- with LIMIT can't become joins. $1 the most members to read
SELECT count(*)
FROM (
  SELECT m.outbox_id, m.attempt_no
  FROM {cell}.payment_outbox_settings s
  JOIN {cell}.payment_outbox_claims c
    ON c.claimed_at <= clock_timestamp() - s.claim_timeout_ms * interval '1 millisecond'
  CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
  WHERE s.singleton
  LIMIT $1) f
WHERE {is_open f}
