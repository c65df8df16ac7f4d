-- rules_of_sends(outbox_id uuid, version integer) -> jsonb
--   What the profiles that an instruction was sent under say of keys: an array of objects
--   with resend_on_unknown, key_window and answer_covers_key, each once; NULL where no
--   send was made under another version of the profile than this one. A rail's promise holds for the sends that
--   follow it, so that the strictest of these and of the profile in force is the rule.
-- reads:   payment_outbox_attempts, payment_rail_profiles, and what sends_of reads.   locks: nothing.
-- called by: executor, for a claim after a send; refusal_is_whole, rail_keeps_no_keys, replay_payment.
--          payment.Policy.Decide and MaySend apply them.
CREATE OR REPLACE FUNCTION {cell}.rules_of_sends(outbox_id uuid, version integer) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT jsonb_agg(DISTINCT jsonb_build_object(
    'resend_on_unknown', coalesce(p.profile ->> 'resend_on_unknown', 'NEVER'),
    'key_window', coalesce(p.profile ->> 'key_window', '0s'),
    'answer_covers_key', coalesce((p.profile ->> 'answer_covers_key')::boolean, false)))
  FROM {cell}.sends_of($1) s
  JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = $1 AND a.attempt_no = s.attempt_no
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = a.rail_type AND p.version = a.profile_version
  WHERE NOT s.denied AND (
    SELECT true FROM {cell}.payment_outbox_attempts other
    WHERE other.outbox_id = $1 AND other.profile_version <> $2
      AND (other.state = 'DISPATCHING' OR other.state = 'LATE_OUTCOME')
    LIMIT 1)
$$;
