-- close_answered_letters(outbox_ids uuid[]) -> void
--   Resolves the open OUTCOME_UNKNOWN letters of payments that are DISPATCHED by now. The rail
--   reported the execution while an inquiry of an operator was in progress, in answer to it or in a
--   report of its own.
-- reads:   payment_outbox_attempts.
-- writes:  payment_dead_letters.   locks: the letters' rows.
-- called by: executor (record), record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.close_answered_letters(outbox_ids uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  UPDATE {cell}.payment_dead_letters d
  SET status = 'resolved', note = 'the rail reported that it executed the payment', actor = session_user,
    updated_at = clock_timestamp()
  WHERE d.outbox_id = ANY ($1) AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ({closed_letters})
    AND EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = d.outbox_id AND a.state = 'DISPATCHED');
END
$$;
