-- The age in seconds up to which an unanswered claim counts as in flight: 15 minutes, or twice the longest claim timeout
-- that is in force or that some component has used. None is longer than an hour, whatever a row says.
SELECT greatest(900, 2 * least(3600, max(t.ms) / 1000.0))::float8 AS seconds
FROM (
  SELECT s.claim_timeout_ms AS ms FROM {cell}.payment_outbox_settings s
  UNION ALL
  SELECT h.claim_timeout_ms FROM {cell}.outbox_heartbeats h) t
