-- record_callback(report jsonb) -> text
--   Records a report that a rail sent on its own initiative, through record_late_outcome and with
--   its verdicts. Only these fields of the report are used: that the payment was executed or
--   refused, the rail's reference and code, the message, and the worker that received it. A report
--   has no claim number and causes no further send. It has none of Railhead's own codes either: some of
--   them mark what an operator did. The worker is one that beats as a callback endpoint and is neither
--   a relayer's or reaper's name nor a role of the server; any other name is replaced by the login.
-- errors:  RH002 for a state other than DISPATCHED (result EXECUTED, ACCEPTED or none) or FAILED
--          (result REFUSED), or without the reporting rail; and those of record_late_outcome.
-- reads:   outbox_heartbeats, and what record_late_outcome reads.
-- writes, locks: as record_late_outcome.   called by: callbacks.
CREATE OR REPLACE FUNCTION {cell}.record_callback(report jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF (report ->> 'state' = 'DISPATCHED' AND coalesce(report ->> 'result', 'EXECUTED') IN ({executing_results})
    OR report ->> 'state' = 'FAILED' AND report ->> 'result' = 'REFUSED') IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must report that a payment was executed or that it was refused';
  END IF;
  IF coalesce(report ->> 'rail_type', '') = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must name the rail that reports: it is evidence only of payments of that rail';
  END IF;
  RETURN {cell}.record_late_outcome((
    SELECT jsonb_object_agg(e.key, e.value)
      || jsonb_build_object('dead_reason', CASE report ->> 'state' WHEN 'FAILED' THEN 'FAILED' END,
        'worker_id', coalesce((
          SELECT report ->> 'worker_id' FROM {cell}.outbox_heartbeats h
          WHERE h.name = 'callback:' || (report ->> 'worker_id') AND h.kind = 'callback'
            AND NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats w WHERE w.name = report ->> 'worker_id')
            AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = report ->> 'worker_id')), session_user))
      || '{"outcome_unknown": false, "provisional": false, "counts_send": false, "delay_ms": 0, "send_count": 0, '
        '"inquiry_count": 0}'
    FROM jsonb_each(report) e
    WHERE e.key IN ('attempt_id', 'outbox_id', 'rail_type', 'state', 'result', 'rail_reference', 'rail_code',
      'error_message')));
END
$$;
