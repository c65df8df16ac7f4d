DO $$
BEGIN
  IF (SELECT string_agg(h.name || ' ' || h.kind || ' ' || h.beats, ', ' ORDER BY h.beats) FROM railhead.outbox_heartbeats h
    WHERE h.last_tick_at = '2026-01-01 00:00Z')
    <> 'callback:gw-1 callback 5, callback:callback:gw-1 callback 6, callback:callback:callback:gw-1 callback 7, '
      'events:callback:gw-2 events 8, callback:gw-2 callback 9, ingest:gw-3 ingest 10, gw-4 relayer 11, '
      'callback:gw-5 reaper 12' OR (SELECT count(*) FROM railhead.outbox_heartbeats) <> 8 THEN
    RAISE EXCEPTION 'the heartbeats are %', (SELECT string_agg(h.name, ', ') FROM railhead.outbox_heartbeats h);
  END IF;
  -- What an endpoint remembers of before is there, under the name that it has.
  IF (SELECT m.beats_missing FROM railhead.recall_memory('callback:gw-1', 5, now(), NULL, NULL, NULL, 'callback:gw-1') m) THEN
    RAISE EXCEPTION 'the heartbeats of an endpoint are missing after the migration';
  END IF;
END
$$;
