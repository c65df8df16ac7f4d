-- inquiry_said_not_executed(outbox_id uuid, profile jsonb, first_sent_at timestamptz,
--                           last_sent_at timestamptz) -> boolean
--   Whether the rail has answered an inquiry of the last 15 minutes with "no such payment", and
--   this proves that the payment was not executed. For that, the given profile, and every version
--   since the one under which the rail was asked, must accept the answer as proof; the latest send
--   must have been old enough and the first one young enough, also counting the sends that a
--   restore forgot or may have forgotten; no other evidence of a send may have arrived since the
--   inquiry was claimed; and the rail must never have reported that it had already seen the key.
--   payment.Policy.Recover implements the same rule.
-- reads:   payment_outbox_attempts, payment_rail_profiles, and what rail_has_seen,
--          forgotten_sends, forgotten_since and may_be_forgotten_until read.   locks: nothing.
-- called by: replay_payment, require_rails_word.
CREATE OR REPLACE FUNCTION {cell}.inquiry_said_not_executed(outbox_id uuid, profile jsonb, first_sent_at timestamptz,
  last_sent_at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT {cell}.rail_has_seen($1) AND coalesce((
      SELECT answer.result = 'NOT_FOUND' AND rule.proves
        -- If no send is known, its age is not known either.
        AND coalesce($3, told.first_at) IS NOT NULL
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts late
          WHERE late.outbox_id = $1 AND late.state = 'LATE_OUTCOME' AND late.attempt_no > answer.answers_attempt_no
            AND late.result IN ({doubtful_results}, 'EXECUTED'))
        AND answer.completed_at > clock_timestamp() - interval '15 minutes'
        AND answer.claimed_at - greatest($4, told.last_at, {cell}.may_be_forgotten_until($1)) >= rule.age
        -- A negative age comes from a clock that was set back, and does not count.
        AND answer.completed_at >= greatest(first.at, first.forgotten) AND answer.completed_at - first.at < rule.until
      FROM {cell}.payment_outbox_attempts answer
      CROSS JOIN {cell}.forgotten_sends($1) told
      CROSS JOIN LATERAL (
        SELECT f.since AS forgotten,
          least($3, told.first_at, CASE WHEN f.since IS NOT NULL THEN greatest(f.since, 'epoch') END) AS at
        FROM (SELECT {cell}.forgotten_since($1) AS since) f) first
      CROSS JOIN LATERAL (
        -- A version that sets no age accepts no answer as proof.
        SELECT bool_and(coalesce(each.profile #>> '{inquiry,not_found}' = 'NOT_EXECUTED'
            AND each.profile #>> '{inquiry,not_found_age}' <> '' AND each.profile #>> '{inquiry,not_found_until}' <> '',
              false)) AS proves,
          max((each.profile #>> '{inquiry,not_found_age}')::interval) AS age,
          min((each.profile #>> '{inquiry,not_found_until}')::interval) AS until
        FROM (
          SELECT $2 AS profile
          UNION ALL
          SELECT p.profile
          FROM {cell}.payment_outbox_attempts asked
          JOIN {cell}.payment_rail_profiles p ON p.rail_type = asked.rail_type AND p.version >= asked.profile_version
          WHERE asked.outbox_id = $1 AND asked.attempt_no = answer.answers_attempt_no) each) rule
      WHERE answer.outbox_id = $1 AND answer.answers_attempt_no IS NOT NULL AND answer.state <> 'LATE_OUTCOME'
      ORDER BY answer.attempt_no DESC
      LIMIT 1), false));
END
$$;
