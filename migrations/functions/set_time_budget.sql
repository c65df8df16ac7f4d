-- set_time_budget(changes jsonb, reason text) -> (version integer, changed boolean)
--   Changes the time budget of the cell. changes is an object of new values in milliseconds, with
--   some of the keys claim_timeout, start_within, record_within, drain and heartbeat_stale; the
--   others keep their values. Components adopt it with their next heartbeat. The reaper uses the
--   longer of the old and the new value until the sender of a claim has adopted the new one.
-- errors:  RH002 without a reason, with an unknown key, with an invalid value or one out of
--          bounds, or if a call could outlive its claim;
--          55P03 after 5 s of waiting for a lock.
-- writes:  payment_outbox_settings, payment_operator_log.   locks: its row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.set_time_budget(changes jsonb, reason text)
RETURNS TABLE (version integer, changed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  fault text;
  old   {cell}.payment_outbox_settings;
  new   {cell}.payment_outbox_settings;
BEGIN
  PERFORM {cell}.require_reason(set_time_budget.reason);
  IF jsonb_typeof(set_time_budget.changes) IS DISTINCT FROM 'object' OR set_time_budget.changes = '{}' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'no setting is named',
      HINT = 'Name a setting and its value in milliseconds.';
  END IF;
  SELECT string_agg(CASE
      WHEN b.name IS NULL THEN format('%s is not a setting', quote_literal(left(c.key, 40)))
      WHEN jsonb_typeof(c.value) <> 'number' OR c.value::numeric <> trunc(c.value::numeric)
        THEN format('%s is not a whole number of milliseconds', c.key)
      ELSE format('%s is %s ms, must be %s to %s', c.key, left(c.value::text, 40), b.low, b.high) END, '; '
        ORDER BY c.key COLLATE "C")
  INTO fault
  FROM jsonb_each(set_time_budget.changes) c
  LEFT JOIN (VALUES ('claim_timeout', 1000, 3600000), ('start_within', 10, 60000), ('record_within', 10, 60000),
    ('drain', 10, 600000),
    ('heartbeat_stale', 100, 3600000)) AS b (name, low, high) ON b.name = c.key COLLATE "C"
  WHERE b.name IS NULL OR jsonb_typeof(c.value) <> 'number'
    OR CASE WHEN jsonb_typeof(c.value) = 'number' THEN c.value::numeric NOT BETWEEN b.low AND b.high
      OR c.value::numeric <> trunc(c.value::numeric) END;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = fault,
      HINT = 'The settings are claim_timeout, start_within, record_within, drain and heartbeat_stale, in milliseconds.';
  END IF;
  SELECT s.* INTO STRICT old FROM {cell}.payment_outbox_settings s WHERE s.singleton FOR NO KEY UPDATE;
  new := old;
  new.claim_timeout_ms := coalesce((set_time_budget.changes ->> 'claim_timeout')::integer, old.claim_timeout_ms);
  new.start_within_ms := coalesce((set_time_budget.changes ->> 'start_within')::integer, old.start_within_ms);
  new.record_within_ms := coalesce((set_time_budget.changes ->> 'record_within')::integer, old.record_within_ms);
  new.drain_ms := coalesce((set_time_budget.changes ->> 'drain')::integer, old.drain_ms);
  new.heartbeat_stale_ms := coalesce((set_time_budget.changes ->> 'heartbeat_stale')::integer, old.heartbeat_stale_ms);
  version := old.budget_version;
  changed := new IS DISTINCT FROM old;
  IF NOT changed THEN
    RETURN NEXT;
    RETURN;
  END IF;
  IF new.start_within_ms + new.record_within_ms + new.drain_ms >= new.claim_timeout_ms THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('start_within %s ms + record_within %s ms + drain %s ms must be less than claim_timeout %s ms',
        new.start_within_ms, new.record_within_ms, new.drain_ms, new.claim_timeout_ms),
      HINT = 'Change them together: railhead settings set NAME VALUE NAME VALUE.';
  END IF;
  UPDATE {cell}.payment_outbox_settings s
  SET claim_timeout_ms = new.claim_timeout_ms, start_within_ms = new.start_within_ms,
    record_within_ms = new.record_within_ms, drain_ms = new.drain_ms, heartbeat_stale_ms = new.heartbeat_stale_ms
  WHERE s.singleton
  RETURNING s.budget_version INTO set_time_budget.version;
  PERFORM {cell}.log_operator_act('SET_TIME_BUDGET', 'version ' || set_time_budget.version, NULL,
    set_time_budget.reason,
    jsonb_build_object('changes', set_time_budget.changes, 'from',
      jsonb_build_object('claim_timeout', old.claim_timeout_ms, 'start_within', old.start_within_ms,
      'record_within', old.record_within_ms, 'drain', old.drain_ms, 'heartbeat_stale', old.heartbeat_stale_ms)));
  RETURN NEXT;
END
$$;
