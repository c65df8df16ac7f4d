-- refusal_covers_all_sends(outbox_id uuid, reported boolean) -> boolean
--   Whether a refusal of the payment, by the answer to an inquiry or by a callback, covers all of
--   its sends: there was at most one, or the rail keeps one outcome per key
--   (rail_keeps_one_outcome). With several sends, the refusal may be of one that was refused
--   earlier, for now, while another is still in progress. A callback may report a send that was
--   refused for now, even if the rail keeps one outcome per key, and a restore may have forgotten
--   that send. Sends that a restore may have forgotten can't be counted.
-- reads:   payment_outbox_attempts, and what send_may_be_forgotten, sends_of and
--          rail_keeps_one_outcome read.   locks: nothing.
-- called by: record_late_outcome. payment.Policy.Decide implements the same rule.
CREATE OR REPLACE FUNCTION {cell}.refusal_covers_all_sends(outbox_id uuid, reported boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT m.forgotten AND (
      -- A worker whose claim a failover forgot has sent too, whatever the answer was.
      SELECT count(*) FROM {cell}.sends_of($1) s WHERE NOT s.executed AND NOT s.denied
    ) <= 1 OR {cell}.rail_keeps_one_outcome($1)
      AND NOT ($2 AND (m.forgotten OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts now
        WHERE now.outbox_id = $1 AND now.result IN ({for_now_results}))))
    FROM (SELECT {cell}.send_may_be_forgotten($1) AS forgotten) m);
END
$$;
