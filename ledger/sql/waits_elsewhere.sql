-- Counts the participants of a rail whose payments wait here, in pending or in an open dead letter, while
-- another cell takes what they enqueue. $1 rail_type
SELECT count(DISTINCT w.participant_id)
FROM (
  SELECT p.participant_id FROM {cell}.payment_outbox_pending p WHERE p.rail_type = $1
  UNION ALL
  SELECT d.participant_id FROM {cell}.payment_dead_letters d
  WHERE d.rail_type = $1 AND d.status NOT IN ({closed_letters})) w
JOIN {cell}.payment_buckets b ON b.bucket = {cell}.cell_bucket(w.participant_id) AND NOT b.mine
