-- retire_references(month regclass) -> bigint
--   Keeps the references under which the rail executed the payments of a month that leaves the
--   archive, or has left it, so that none of them is accepted as evidence that another payment was
--   executed. month is its table of attempts. Builds of before migration 63 stored them as they were.
--   A reference that is kept already is kept once; one that can't be stored (clean_reference) is not
--   kept, because no evidence can name it.
-- returns: how many were added.
-- errors:  42501 for every role but the owner of the cell.
-- reads:   the table of the month.   writes: payment_retired_references.   locks: nothing else.
-- called by: the owner, before a month is detached.
CREATE OR REPLACE FUNCTION {cell}.retire_references(month regclass) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  added bigint;
BEGIN
  EXECUTE format(
    'INSERT INTO {cell}.payment_retired_references (outbox_id, rail_type, rail_reference) '
    'SELECT a.outbox_id, a.rail_type, {cell}.clean_reference(a.rail_reference) FROM %s a '
    'WHERE {cell}.clean_reference(a.rail_reference) IS NOT NULL AND (a.state = ''DISPATCHED'' OR a.result = ''EXECUTED'') '
    'ON CONFLICT DO NOTHING', month);
  GET DIAGNOSTICS added = ROW_COUNT;
  RETURN added;
END
$$;
