-- rail_has_seen(outbox_id uuid) -> boolean
--   Whether the rail has shown that it knows the payment: it answered some send with a code that
--   may mean that it has already seen the key (payment.CodeSeenBefore); or, since the last replay,
--   it accepted the payment, reported it as in progress, executed or refused, or refused a send in
--   a way after which it is not sent again (payment.CodeNewIDNeeded, CodeBusinessRefused). A later
--   "no such payment" proves nothing: it contradicts what the rail has shown, or would allow a
--   re-send that is not wanted.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor, for the claim of an inquiry; inquiry_said_not_executed.
CREATE OR REPLACE FUNCTION {cell}.rail_has_seen(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1
        AND (a.error_code = 'SEEN_BEFORE'
          OR (a.error_code IN ({spent_codes})
            OR a.result IN ({showing_results})) AND NOT EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts since
            WHERE since.outbox_id = $1 AND since.state = 'REPLAYED' AND since.attempt_no > a.attempt_no))));
END
$$;
