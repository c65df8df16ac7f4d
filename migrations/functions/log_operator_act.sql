-- log_operator_act(act text, subject text, outbox_id uuid, reason text, detail jsonb) -> void
--   Appends one row to the operator log; the actor is the login.
-- writes:  payment_operator_log.   locks: nothing.   called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.log_operator_act(act text, subject text, outbox_id uuid, reason text,
  detail jsonb DEFAULT '{}') RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  INSERT INTO {cell}.payment_operator_log (act, subject, outbox_id, reason, detail) VALUES ($1, $2, $3, $4, $5)
$$;
