-- Records the heartbeat of a component, with the time budget that it uses and whether it vouches
-- for this start of the server. Returns the number of heartbeats that the row counts, and the time
-- budget of the cell. Returns no row if the server is not at the start that the component has
-- compared, or if the name is that of a component of another kind: its row is counted by its kind,
-- for example to tell whether a relayer has ever run. Components of other kinds than relayer and reaper
-- have rows of other names: see keep_heartbeat.
--
-- The component remembers the number: one that a crash took back would look like lost rows, so the statement
-- waits for its flush whatever the session has set.
--
-- The budget in the row is never shorter than the cell's current one: a component may use the
-- returned budget as soon as this statement has returned, and not before.
-- $1 name, $2 kind, $3 host, $4 version, $5 status, $6 activity, $7 stale after ms, $8 the host's clock,
-- $9 the start of the server that it has compared; null: any, $10 vouched, $11 claim timeout ms, $12 start within ms,
-- $13 the version of its time budget; 0: the one that this returns, $14 the lanes that it serves
WITH budget AS MATERIALIZED (
  SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms,
    set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
      ELSE current_setting('synchronous_commit') END, true) AS durable
  FROM {cell}.payment_outbox_settings s WHERE s.singleton
),
beat AS (
  INSERT INTO {cell}.outbox_heartbeats AS h
    (name, kind, host, version, status, activity, clock_offset_ms, server_started_at, vouched,
     stale_after_ms, claim_timeout_ms, start_within_ms, budget_version, lanes)
  SELECT $1, $2, $3, $4, $5, $6, (extract(epoch FROM clock_timestamp() - $8::timestamptz) * 1000)::bigint,
    pg_postmaster_start_time(), $10, greatest($7, s.heartbeat_stale_ms), greatest($11, s.claim_timeout_ms),
      greatest($12, s.start_within_ms),
    coalesce(nullif($13::integer, 0), s.budget_version), $14::jsonb
  FROM budget s
  WHERE coalesce($9::timestamptz = pg_postmaster_start_time(), true)
  ON CONFLICT (name) DO UPDATE SET last_tick_at = clock_timestamp(), status = excluded.status,
    activity = excluded.activity, clock_offset_ms = excluded.clock_offset_ms, beats = h.beats + 1,
    vouched = excluded.vouched, stale_after_ms = excluded.stale_after_ms, claim_timeout_ms = excluded.claim_timeout_ms,
    start_within_ms = excluded.start_within_ms, budget_version = excluded.budget_version,
    server_started_at = excluded.server_started_at, lanes = excluded.lanes,
    tick_before_start = CASE WHEN h.vouched AND h.server_started_at <> excluded.server_started_at THEN h.last_tick_at
      ELSE h.tick_before_start END
  WHERE h.kind = excluded.kind
  RETURNING h.beats
)
SELECT b.beats, s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms,
  s.heartbeat_stale_ms
FROM beat b CROSS JOIN budget s
