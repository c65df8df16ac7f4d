-- What was accepted and compared before counts for the tables that hold it.
DO $$
DECLARE
  here CONSTANT oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
BEGIN
  IF EXISTS (SELECT FROM railhead.payment_accepted_timelines t WHERE (t.database_oid, t.table_oid) IS DISTINCT FROM (here, t.tableoid))
    OR NOT EXISTS (SELECT FROM railhead.payment_accepted_timelines)
    OR EXISTS (SELECT FROM railhead.payment_cell_checks k WHERE (k.database_oid, k.table_oid) IS DISTINCT FROM (here, k.tableoid))
    OR NOT EXISTS (SELECT FROM railhead.payment_cell_checks)
    OR NOT railhead.map_is_confirmed()
    OR NOT EXISTS (SELECT FROM railhead.payment_outbox_rules r WHERE r.confirmed_table = r.tableoid
      AND r.confirmed_start = pg_postmaster_start_time())
  THEN
    RAISE EXCEPTION 'a row of before counts as one of another table';
  END IF;
END $$;
