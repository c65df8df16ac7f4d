-- forgotten_sends(outbox_id uuid) -> record (n, first_at, last_at)
--   The sends of the instruction that a restore forgot and that their workers have reported since:
--   their number, and the times of the first and the last of their claims.
-- reads:   what sends_of reads.   locks: nothing.
-- called by: replay_payment, inquire_payment, require_rails_word, inquiry_said_not_executed, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.forgotten_sends(
  outbox_id uuid, OUT n bigint, OUT first_at timestamptz, OUT last_at timestamptz) RETURNS record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  SELECT count(*), min(s.claimed_at), max(s.claimed_at)
  INTO n, first_at, last_at
  FROM {cell}.sends_of($1) s
  WHERE s.forgotten AND s.claimed_at IS NOT NULL;
END
$$;
