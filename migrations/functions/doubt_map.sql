-- doubt_map() -> trigger
--   Ends that enqueues go by the last comparison of the map of cells (confirmed_start of
--   payment_outbox_rules), once a component has found that the data went back. It waits 500 ms for the
--   row at most: a suspension must not wait for the session that holds it. Enqueues then still go by the comparison,
--   although map_is_confirmed counts the suspension, until a component that has noticed the suspension looks at the
--   server again, and repeats suspend_outbox.
-- reads:   nothing.   writes: payment_outbox_rules.   locks: its row, until the transaction ends.
-- called by: a trigger of payment_outbox_suspensions.
CREATE OR REPLACE FUNCTION {cell}.doubt_map() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '500ms'
AS $$
BEGIN
  UPDATE {cell}.payment_outbox_rules SET confirmed_start = NULL WHERE confirmed_start IS NOT NULL;
  RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
  RETURN NULL;
END
$$;
