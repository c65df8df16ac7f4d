-- key_since(outbox_id uuid, known_for interval, first_sent_at timestamptz) -> timestamptz
--   The earliest time since which the rail may have the key of an instruction, if it remembers a
--   key for known_for: the time of the first send; or the time since which a restore may have
--   forgotten a send, if the first known send followed so soon that the rail may have answered it
--   with the outcome of the forgotten one; and so on, from restore to restore. payment.Claim
--   implements the same rule.
-- reads:   payment_outbox_keys, payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: replay_payment.
CREATE OR REPLACE FUNCTION {cell}.key_since(outbox_id uuid, known_for interval, first_sent_at timestamptz)
  RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  since timestamptz := $3;
  gap   record;
BEGIN
  FOR gap IN
    SELECT greatest(s.known_until, 'epoch') AS known_until, s.opened_at
    FROM {cell}.payment_outbox_keys k
    CROSS JOIN {cell}.payment_outbox_settings g
    JOIN {cell}.payment_outbox_suspensions s
      ON s.accepted_at IS NULL OR k.created_at < s.accepted_at + g.repeated_within
    WHERE k.outbox_id = $1
    ORDER BY s.opened_at DESC
  LOOP
    IF since < gap.opened_at + $2 THEN
      -- A time in the future comes from a clock that was set back. It is not an age, and counts as
      -- later than all others.
      since := CASE WHEN gap.known_until > clock_timestamp() THEN gap.known_until
        ELSE least(since, gap.known_until) END;
      EXIT WHEN since > clock_timestamp();
    END IF;
  END LOOP;
  RETURN since;
END
$$;
