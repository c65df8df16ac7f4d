-- Claimed instructions by rail, from the small table of claims and two probes for each member, and
-- in every row whether members were left out; one row without a rail if nothing is in flight. The
-- sub-query with LIMIT can't become a join, so that no plan scans the archive. An instruction with
-- an open dead letter for its unknown outcome, about which a rail is asked again, is counted as
-- unknown with its letter. $1 the most members to read, oldest first
WITH f AS MATERIALIZED (
  SELECT c.claimed_at, m.outbox_id, m.attempt_no
  FROM {cell}.payment_outbox_claims c
  CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
  ORDER BY c.claimed_at
  LIMIT $1 + 1),
looked AS (
  SELECT f.* FROM f ORDER BY f.claimed_at LIMIT $1)
SELECT g.rail_type, g.in_flight, g.unknown, g.oldest_ms, (SELECT count(*) FROM f) > $1 AS capped
FROM (VALUES (1)) AS one
LEFT JOIN (
  SELECT a.rail_type, count(*) AS in_flight, count(*) FILTER (WHERE a.outcome_unknown AND NOT a.lettered) AS unknown,
    (extract(epoch FROM max(clock_timestamp() - l.claimed_at)) * 1000)::bigint AS oldest_ms
  FROM looked l
  CROSS JOIN LATERAL (
    SELECT t.rail_type, t.outcome_unknown,
      (SELECT true FROM {cell}.payment_dead_letters d
       WHERE d.outbox_id = l.outbox_id AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ({closed_letters})
         LIMIT 1) IS NOT NULL AS lettered
    FROM {cell}.payment_outbox_attempts t
    WHERE t.outbox_id = l.outbox_id AND t.attempt_no = l.attempt_no
    LIMIT 1) a
  WHERE {is_open l}
  GROUP BY a.rail_type) g ON true
