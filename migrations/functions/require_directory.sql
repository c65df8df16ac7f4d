-- require_directory(argument anyelement) -> anyelement
--   Returns its argument, if this cell is in a directory of cells. Callers that route by a map pass an
--   argument of each enqueue through it: a cell of theirs that is in no directory was restored to a time
--   before it joined, takes everything, and derives other rail keys.
--
--   It runs with the rights of its caller, because it takes any type: a value of a domain that a caller made
--   carries the domain's CHECK, with code of the caller.
-- errors:  RH009.
-- reads:   payment_outbox_rules.   writes, locks: nothing.   called by: ingest, api.
CREATE OR REPLACE FUNCTION {cell}.require_directory(argument anyelement) RETURNS anyelement
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_map();
  RETURN argument;
END
$$;
