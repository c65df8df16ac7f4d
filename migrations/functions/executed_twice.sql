-- executed_twice(outbox_id uuid, after_no integer, own boolean) -> boolean
--   Whether two sends of an instruction were executed (executions_of), not under the same
--   reference, at times further apart than the rail remembers a key (rail_knows_keys_for), and one
--   of the two was recorded after row after_no. own: the DISPATCHED row is the answer of the send
--   itself, whatever else was reported while it was in flight. payment.History implements the same
--   rule.
-- reads:   what executions_of and rail_knows_keys_for read.   locks: nothing.
-- called by: record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.executed_twice(outbox_id uuid, after_no integer, own boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH e AS (
      SELECT x.* FROM {cell}.executions_of($1) x WHERE $3 OR NOT x.by_another
    )
    SELECT EXISTS (
      SELECT FROM e one
      JOIN e other ON other.claimed_at < one.claimed_at
      WHERE greatest(one.attempt_no, other.attempt_no) > $2
        AND ({cell}.clean_reference(one.rail_reference) = {cell}.clean_reference(other.rail_reference)) IS NOT TRUE
        AND one.claimed_at - other.claimed_at >= {cell}.rail_knows_keys_for($1)));
END
$$;
