-- The time budget of the cell.
SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms
FROM {cell}.payment_outbox_settings s
WHERE s.singleton
