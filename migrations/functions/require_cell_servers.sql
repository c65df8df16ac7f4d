-- require_cell_servers(servers jsonb) -> void
--   Refuses an act that rests on maps which were read on other servers than those that this cell knows
--   (note_cell_server): they may be from before a failover or a restore. servers names cells, this one
--   included, with the server on which each was read (map_server). Waits for a note_cell_server that is
--   under way, and lets later ones wait until the transaction ends.
-- errors:  RH020.
-- reads:   payment_cells, payment_cell_servers, and what map_server reads.   writes: nothing.
-- locks:   payment_cell_servers.   called by: learn_cells, settle_buckets.
CREATE OR REPLACE FUNCTION {cell}.require_cell_servers(servers jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  named text;
BEGIN
  LOCK TABLE {cell}.payment_cell_servers IN SHARE MODE;
  SELECT v.cell INTO named
  FROM jsonb_to_recordset(servers) AS v(cell text, server text)
  LEFT JOIN {cell}.payment_cells c ON c.name = v.cell COLLATE "C"
  WHERE v.server IS DISTINCT FROM CASE WHEN c.here THEN {cell}.map_server() ELSE (
    SELECT s.server FROM {cell}.payment_cell_servers s
    WHERE s.cell = v.cell COLLATE "C"
    ORDER BY s.seen DESC
    LIMIT 1) END
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the map of cell %s was read on another server than the one that this cell knows of it: it may be from before a failover or a restore',
        coalesce(left(named, 64), 'without a name')),
      HINT = 'Read and compare all maps again: railhead cell sync.';
  END IF;
END
$$;
