-- refusal_covers_all_sends(outbox_id uuid, reported boolean) -> boolean
--   Whether "refused", said of the payment by an inquiry or a callback, speaks for
--   all of its sends: there was one at most, or the rail keeps one outcome a key
--   (answer_covers_key). Of several sends it may mean one that was refused before,
--   for now, while another is still on its way; and what the rail reported by
--   itself may be a send that was refused for now, even where it keeps one outcome
--   a key; that one a restore may have forgotten. Sends that a restore may have
--   forgotten can't be counted. The rail keeps one outcome a key where the profile in
--   force says so, and so did each that a send was made under.
-- reads:   payment_outbox_attempts, and what send_may_be_forgotten, sends_of and
--          rail_keeps_one_outcome read.   locks: nothing.
-- called by: record_late_outcome. payment.Policy.Decide has the same rule.
CREATE OR REPLACE FUNCTION {cell}.refusal_covers_all_sends(outbox_id uuid, reported boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT m.forgotten AND (
      -- A worker whose claim a failover forgot has sent, too, whatever the answer was.
      SELECT count(*) FROM {cell}.sends_of($1) s WHERE NOT s.executed AND NOT s.denied
    ) <= 1 OR {cell}.rail_keeps_one_outcome($1)
      AND NOT ($2 AND (m.forgotten OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts now
        WHERE now.outbox_id = $1 AND now.result IN ({for_now_results}))))
    FROM (SELECT {cell}.send_may_be_forgotten($1) AS forgotten) m);
END
$$;
