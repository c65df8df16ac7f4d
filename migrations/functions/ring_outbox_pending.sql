-- ring_outbox_pending() -> trigger
--   Rings the bell for relayers: NOTIFY "{cell}.outbox_pending", payload
--   new_work. A bell only wakes; it carries nothing that a listener trusts.
-- reads, writes: nothing.   locks: NOTIFY's queue lock at commit.
-- called by: the insert trigger of payment_outbox_pending.
CREATE OR REPLACE FUNCTION {cell}.ring_outbox_pending() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN NULL;
END
$$;
