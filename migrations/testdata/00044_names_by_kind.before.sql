-- Names of before, also some that would be in the way of others, and one that is too long with its kind.
INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, beats, last_tick_at)
SELECT v.name, v.kind, 'h', 'v', 'running', v.beats, '2026-01-01 00:00Z'
FROM (VALUES ('gw-1', 'callback', 5), ('callback:gw-1', 'callback', 6), ('callback:callback:gw-1', 'callback', 7),
  ('callback:gw-2', 'events', 8), ('gw-2', 'callback', 9), ('gw-3', 'ingest', 10), ('gw-4', 'relayer', 11),
  ('callback:gw-5', 'reaper', 12)) AS v(name, kind, beats);
INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status)
SELECT string_agg(sha256(n::text::bytea)::text, ''), 'ingest', 'h', 'v', 'running' FROM generate_series(1, 38) n;
