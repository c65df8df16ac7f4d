-- event_outcome_unknown(outbox_id uuid, state outbox_attempt_state, outcome_unknown boolean) -> boolean
--   The outcome_unknown that is told with a row of the archive, at every door by which events leave. It is that of the
--   row; of a cancelled payment it is also set while payment_certainty is OUTCOME_UNKNOWN, because the call may repeat one
--   that a restore lost, and of a failed one while it is that because another cell has its key, too (other_cell_key).
--   Null for no row.
-- reads:   what payment_certainty and other_cell_key read.   locks: nothing.
-- called by: outcome_feed, event_deliveries.
CREATE OR REPLACE FUNCTION {cell}.event_outcome_unknown(outbox_id uuid, state {cell}.outbox_attempt_state,
  outcome_unknown boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RETURN $3 OR ($2 = 'CANCELLED' OR $2 = 'FAILED' AND EXISTS (SELECT FROM {cell}.other_cell_key($1)))
    AND {cell}.payment_certainty($1, true) = 'OUTCOME_UNKNOWN';
END
$$;
