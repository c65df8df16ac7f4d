-- record_callback(report jsonb) -> text
--   Records what a rail reported by itself, by record_late_outcome and with its
--   verdicts. Of the report only what such a report can say is taken: that the
--   payment was executed or refused, by which words, and who heard it. It has no
--   claim's number, and sends nothing again.
-- errors:  RH002 another state than DISPATCHED (result EXECUTED, ACCEPTED or none) or FAILED
--          (result REFUSED), or without the rail that reports; and those of record_late_outcome.
-- reads, writes, locks: as record_late_outcome.   called by: callbacks.
CREATE OR REPLACE FUNCTION {cell}.record_callback(report jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF (report ->> 'state' = 'DISPATCHED' AND coalesce(report ->> 'result', 'EXECUTED') IN ({executing_results})
    OR report ->> 'state' = 'FAILED' AND report ->> 'result' = 'REFUSED') IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a callback reports that a payment was executed or that it was refused, and nothing else';
  END IF;
  IF coalesce(report ->> 'rail_type', '') = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a callback names the rail that reports: it speaks for payments of that rail alone';
  END IF;
  RETURN {cell}.record_late_outcome((
    SELECT jsonb_object_agg(e.key, e.value)
      || jsonb_build_object('dead_reason', CASE report ->> 'state' WHEN 'FAILED' THEN 'FAILED' END)
      || '{"outcome_unknown": false, "provisional": false, "counts_send": false, "delay_ms": 0, "send_count": 0, "inquiry_count": 0}'
    FROM jsonb_each(report) e
    WHERE e.key IN ('attempt_id', 'outbox_id', 'rail_type', 'state', 'result', 'rail_reference', 'rail_code', 'code_table',
      'error_code', 'error_message', 'worker_id')));
END
$$;
