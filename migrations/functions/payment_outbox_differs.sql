-- payment_outbox_differs(outbox_id uuid, not_before timestamptz, expires_at timestamptz, priority integer,
--                        send_once boolean) -> text[]
--   The names of those arguments of a repeated call that differ from the first call, in this order;
--   {} if none does. They are not part of the content: the call is not a conflict, and the first
--   values stay in force. Null if the answer is not known, because the instruction's rows have left
--   the archive, because it was quarantined before its first claim, or because it was quarantined
--   and replayed, which sets other times. A not_before that was already past at the enqueue equals
--   none.
-- reads:   payment_outbox_instructions, payment_outbox_pending, payment_outbox_attempts, payment_operator_log.
-- called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_differs(
  outbox_id uuid, not_before timestamptz, expires_at timestamptz, priority integer, send_once boolean) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  -- Some client libraries truncate nanoseconds to microseconds, and others round them.
  unit  CONSTANT interval := interval '1 microsecond';
  first record;
  once  boolean := (SELECT i.send_once FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = $1);
BEGIN
  -- A replay of a quarantined row is the only one whose entry names no letter. The log keeps it; the
  -- dead letter has another reason once it was opened again.
  IF EXISTS (
    SELECT FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1 AND l.act = 'REPLAY' AND NOT l.detail ? 'letter')
  THEN
    RETURN NULL;
  END IF;
  -- Later rows may hold times that a replay has set.
  SELECT a.next_attempt_at, a.expires_at, a.priority, a.enqueued_at, a.payload IS NOT NULL AS older INTO first
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.enqueued_at IS NOT NULL
  ORDER BY a.attempt_no
  LIMIT 1;
  IF NOT FOUND THEN
    SELECT p.next_attempt_at, p.expires_at, p.priority, p.created_at AS enqueued_at,
      p.payload IS NOT NULL AS older INTO first
    FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = $1;
  END IF;
  -- The due time of a quarantined row is gone.
  IF NOT FOUND OR first.next_attempt_at = 'infinity' THEN
    RETURN NULL;
  END IF;
  -- An instruction that is older than payment_outbox_instructions has no send_once: it is sent as
  -- the profile allows.
  once := coalesce(once, CASE WHEN first.older THEN false END);
  IF once IS NULL THEN
    RETURN NULL;
  END IF;
  -- An operator may have changed the due time before the first claim. The log has the original one.
  first.next_attempt_at := coalesce((
    SELECT (l.detail ->> 'from')::timestamptz
    FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1 AND l.act IN ('SEND_NOW', 'RESCHEDULE') AND l.detail ->> 'rows' = '0'
    ORDER BY l.act_id
    LIMIT 1), first.next_attempt_at);
  RETURN array_remove(ARRAY[
    CASE WHEN greatest($2, first.enqueued_at) NOT BETWEEN first.next_attempt_at - unit AND first.next_attempt_at + unit
      THEN 'not_before' END,
    CASE WHEN ($3 IS NULL) <> (first.expires_at IS NULL)
      OR $3 NOT BETWEEN first.expires_at - unit AND first.expires_at + unit THEN 'expires_at' END,
    CASE WHEN $4 <> first.priority THEN 'priority' END,
    CASE WHEN $5 <> once THEN 'send_once' END], NULL);
END
$$;
