CREATE OR REPLACE VIEW {cell}.v_dead_letter_summary AS
SELECT d.reason, d.rail_type, d.status, count(*) AS count,
  min(d.opened_at) AS oldest_opened_at, max(d.opened_at) AS latest_opened_at,
  clock_timestamp() - min(d.opened_at) AS oldest_age
FROM (
  SELECT w.reason, w.rail_type, w.status, w.opened_at
  FROM {cell}.payment_dead_letters w
  WHERE w.status NOT IN ({closed_letters})
  LIMIT 1000000) d
GROUP BY d.reason, d.rail_type, d.status;
COMMENT ON VIEW {cell}.v_dead_letter_summary IS 'Open dead letters by reason, rail and status.';
