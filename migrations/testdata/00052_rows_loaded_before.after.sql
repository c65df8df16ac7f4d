-- Nothing counts as accepted or compared, and the guards are as before.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM railhead.payment_accepted_timelines) OR NOT EXISTS (SELECT FROM railhead.payment_cell_checks)
    OR EXISTS (SELECT FROM railhead.payment_accepted_timelines t WHERE t.table_oid = t.tableoid)
    OR EXISTS (SELECT FROM railhead.payment_cell_checks k WHERE k.table_oid = k.tableoid)
    OR EXISTS (SELECT FROM railhead.payment_outbox_rules r WHERE r.confirmed_table = r.tableoid OR r.confirmed_start IS NOT NULL)
    OR railhead.server_is_settled()
    OR (SELECT count(*) FROM pg_trigger t WHERE t.tgenabled = 'A' AND t.tgname IN
      ('payment_accepted_timelines_append_only', 'payment_cell_checks_append_only')) <> 2
  THEN
    RAISE EXCEPTION 'rows that were loaded count as accepted';
  END IF;
END $$;
