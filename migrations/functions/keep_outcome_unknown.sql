-- keep_outcome_unknown() -> trigger
--   Raises P0001 if an update would make an unknown outcome certain. Evidence makes it certain by a
--   row of the archive, together with the deletion of the pending row.
-- reads, writes, locks: nothing.   called by: a trigger of payment_outbox_pending, ENABLE ALWAYS.
CREATE OR REPLACE FUNCTION {cell}.keep_outcome_unknown() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'P0001',
    MESSAGE = format('the outcome of %s stays unknown until there is evidence', OLD.outbox_id),
    HINT = 'Record the rail''s answer, or resolve it with evidence.';
END
$$;
