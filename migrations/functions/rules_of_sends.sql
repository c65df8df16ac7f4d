-- rules_of_sends(outbox_id uuid) -> jsonb
--   The rules about keys in the profiles under which an instruction was sent: an array of objects
--   with acceptance, resend_on_unknown, key_window and answer_covers_key, without duplicates, of
--   every version from that of its oldest send to the one before the version in force. NULL if no
--   send was made under another version. The promises of a version hold for the sends that follow
--   it, so the strictest of these rules and those of the profile in force applies.
--
--   A send whose version a restore forgot counts as made under the first version. A send under an
--   unknown version, or under one that was put in force after the send because a restore gave its
--   number away again, counts as made to a rail that remembers no key. A send that a restore may
--   have forgotten completely was made after the time from which rows may be missing.
-- reads:   payment_outbox_attempts, payment_outbox_pending, payment_rails, payment_rail_profiles,
--          and what sends_of and forgotten_since read.   locks: nothing.
-- called by: executor, for a claim after a send; rail_keeps_one_outcome, rail_knows_keys_for,
--          acceptance_of_sends, replay_payment.
--          payment.Policy.Decide and MaySend apply them.
CREATE OR REPLACE FUNCTION {cell}.rules_of_sends(outbox_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  rail     text;
  in_force integer;
  oldest   integer;
  unknown  boolean; -- whether some version is unknown to this database
  since    timestamptz := {cell}.forgotten_since($1);
BEGIN
  SELECT a.rail_type, r.profile_version INTO rail, in_force
  FROM {cell}.payment_outbox_attempts a
  JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
  WHERE a.outbox_id = $1
  ORDER BY a.attempt_no LIMIT 1;
  IF NOT FOUND THEN -- the calling statement claims it for the first time
    SELECT p.rail_type, r.profile_version INTO rail, in_force
    FROM {cell}.payment_outbox_pending p
    JOIN {cell}.payment_rails r ON r.rail_type = p.rail_type
    WHERE p.outbox_id = $1;
  END IF;
  -- Most instructions were sent under one version only; this query, which stops at the first row,
  -- detects them.
  PERFORM FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.profile_version IS DISTINCT FROM in_force
    AND (a.state = 'DISPATCHING' OR a.state = 'LATE_OUTCOME') LIMIT 1;
  IF NOT FOUND AND since IS NULL THEN
    PERFORM FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'LATE_OUTCOME' AND a.answers_attempt_no IS NULL LIMIT 1;
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
  END IF;
  -- A row of an inquiry that reports a forgotten send has the version of the inquiry.
  SELECT min(v.version), coalesce(bool_or(v.version > in_force OR v.forgotten AND EXISTS (
      SELECT FROM {cell}.payment_rail_profiles p
      WHERE p.rail_type = rail AND p.version = v.version AND p.applied_at > v.claimed_at)), false)
  INTO oldest, unknown
  FROM (
    SELECT s.forgotten AND NOT by_first AS forgotten, a.claimed_at,
      CASE WHEN by_first THEN 1 ELSE coalesce(nullif(a.profile_version, 0), 1) END AS version
    FROM {cell}.sends_of($1) s
    JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = $1 AND a.attempt_no = s.attempt_no
    CROSS JOIN LATERAL (
      SELECT s.forgotten AND (a.claimed_at IS NULL OR a.result IN ({inquiry_results})
        OR coalesce(a.profile_version, 0) = 0) AS by_first) b
    WHERE NOT s.denied) v;
  IF since IS NOT NULL THEN
    oldest := least(oldest, {cell}.profile_at(rail, since));
  END IF;
  IF oldest >= in_force AND NOT unknown THEN
    RETURN NULL;
  END IF;
  RETURN {cell}.key_rules(rail, oldest, in_force, unknown);
END
$$;
