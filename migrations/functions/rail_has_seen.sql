-- rail_has_seen(outbox_id uuid) -> boolean
--   Whether the rail answered some send with a word that may mean that it knows
--   the key already (payment.CodeSeenBefore), or refused it and takes its key no more
--   (payment.CodeNewIDNeeded). Its "no such payment" proves nothing after that: it
--   contradicts its own index, or allows a re-send that the rail would not take.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor, for the claim of an inquiry; inquiry_said_not_executed.
CREATE OR REPLACE FUNCTION {cell}.rail_has_seen(outbox_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.error_code IN ('SEEN_BEFORE', 'NEW_ID_NEEDED'))
$$;
