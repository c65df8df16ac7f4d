-- open_enqueue(scope text, name text, reason text) -> boolean
--   Accepts new instructions again: opens the gate that close_enqueue closed under the same scope
--   and name. Returns true if it was closed. Each gate is opened separately: a closed rail stays
--   closed when the gate of the whole cell is opened.
-- errors:  RH002 without a reason, or with an unknown scope; RH003 unknown rail; RH010 a participant
--          that never enqueued; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_rules, and what require_gate reads.
-- writes:  payment_closed_gates, payment_outbox_rules by its trigger, payment_operator_log.
-- locks:   the row of payment_outbox_rules, which no enqueue waits for.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.open_enqueue(scope text, name text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was_closed boolean;
BEGIN
  PERFORM {cell}.require_reason(open_enqueue.reason);
  PERFORM {cell}.require_gate(open_enqueue.scope, open_enqueue.name);
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  DELETE FROM {cell}.payment_closed_gates g WHERE g.scope = open_enqueue.scope AND g.name = open_enqueue.name;
  was_closed := FOUND;
  PERFORM {cell}.log_operator_act('OPEN_ENQUEUE', open_enqueue.name, NULL, open_enqueue.reason,
    jsonb_build_object('scope', open_enqueue.scope));
  RETURN was_closed;
END
$$;
