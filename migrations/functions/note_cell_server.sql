-- note_cell_server(cell text, server text, reason text) -> boolean
--   Records on which server another cell of the directory is now (map_server, as it was read there), and
--   returns whether that is new. From the commit on this cell learns nothing from a copy of that cell's
--   map that was read on an earlier server (learn_cells): what a failover or a restore has forgotten must
--   not be taught after the cell's map was confirmed. So it is recorded in every other cell before the
--   maps are read by which a map is confirmed.
--
--   A server follows another one if it has its system identifier and a later timeline, or the same
--   timeline and a later start, or the same start and was found to have gone back since. Another one may be that of a copy of the
--   database: it needs a reason, and is logged.
-- errors:  RH002 server is not of the form that map_server gives; RH010 this cell knows no other cell of
--          that name; RH020 the server does not follow the known one, and there is no reason; 25001 above
--          READ COMMITTED; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_cells.   writes: payment_cell_servers; payment_operator_log, if there is a reason.
-- locks:   payment_cell_servers, against a learn_cells that is under way.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.note_cell_server(cell text, server text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  form  CONSTANT text := '^([0-9]{1,20})/([0-9]{1,10})/([0-9]{4}-[0-9:. -]{1,40}[+]00)/([0-9]{1,9})$';
  known {cell}.payment_cell_servers;
  was   text[] COLLATE "C";
  now   CONSTANT text[] COLLATE "C" := regexp_match(note_cell_server.server COLLATE "C", form);
BEGIN
  PERFORM {cell}.require_durable_map();
  IF now IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a server is system identifier, timeline, start in UTC and a count, separated by slashes',
      HINT = 'Read it in that cell: SELECT map_server(). A standby has none.';
  END IF;
  IF NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE c.name = note_cell_server.cell COLLATE "C" AND NOT c.here) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(note_cell_server.cell, 64)), 'NULL')),
      HINT = 'See railhead cell list.';
  END IF;
  LOCK TABLE {cell}.payment_cell_servers IN SHARE ROW EXCLUSIVE MODE;
  SELECT s.* INTO known FROM {cell}.payment_cell_servers s
  WHERE s.cell = note_cell_server.cell COLLATE "C"
  ORDER BY s.seen DESC
  LIMIT 1;
  IF known.server = note_cell_server.server COLLATE "C" THEN
    RETURN false;
  END IF;
  was := regexp_match(known.server, form);
  IF NOT (was[1] = now[1] AND (was[2]::bigint, was[3]::timestamptz, was[4]::integer)
    < (now[2]::bigint, now[3]::timestamptz, now[4]::integer))
    AND coalesce(note_cell_server.reason, '') COLLATE "C" !~ E'[^ {unseen}]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the server that was read as cell %s (system %s, timeline %s, started %s) does not follow the one that this cell knows (system %s, timeline %s, started %s)',
        known.cell, now[1], now[2], now[3], was[1], was[2], was[3]),
      HINT = 'Another act may have seen a newer one meanwhile: repeat this first. If it stays, it may be a copy of the '
        'cell''s database: look where its connection setting leads. If it is the cell (restored without its history of '
        'timelines, started while its clock was set back, or moved to a new PostgreSQL): railhead cell sync --server '
        'CELL --reason WHY.';
  END IF;
  INSERT INTO {cell}.payment_cell_servers (cell, seen, server, reason)
  VALUES (note_cell_server.cell, coalesce(known.seen, 0) + 1, note_cell_server.server, note_cell_server.reason);
  IF note_cell_server.reason COLLATE "C" ~ E'[^ {unseen}]' THEN
    PERFORM {cell}.log_operator_act('NOTE_CELL_SERVER', note_cell_server.cell, NULL, note_cell_server.reason,
      jsonb_build_object('server', note_cell_server.server, 'before', known.server));
  END IF;
  RETURN true;
END
$$;
