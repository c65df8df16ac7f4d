-- send_may_be_forgotten(outbox_id uuid) -> boolean
--   Whether a restore may have forgotten a send of the instruction: a suspension is open, or one
--   has ended and the instruction was enqueued before the end of the time in which callers repeat
--   forgotten calls.
-- reads:   what may_be_forgotten_until reads.   locks: nothing.
-- called by: refusal_covers_all_sends, record_late_outcome, answer_open_claim, refused_and_executed,
--          require_rails_word.
-- payment.Claim.Weigh implements the same rule.
CREATE OR REPLACE FUNCTION {cell}.send_may_be_forgotten(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT {cell}.may_be_forgotten_until($1) IS NOT NULL);
END
$$;
