-- log_operator_act(act text, subject text, outbox_id uuid, reason text, detail jsonb) -> void
--   Appends one row to the operator log; the actor is the login. The commit waits until the act is
--   durable (require_durable_commit): a crash takes back no act that an operator was told of.
-- writes:  payment_operator_log.   locks: nothing.   called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.log_operator_act(act text, subject text, outbox_id uuid, reason text,
  detail jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM {cell}.require_durable_commit();
  INSERT INTO {cell}.payment_operator_log (act, subject, outbox_id, reason, detail) VALUES ($1, $2, $3, $4, $5);
END
$$;
