-- key_since(outbox_id uuid, known_for interval, first_sent_at timestamptz) -> timestamptz
--   From when on the rail may have the key of an instruction, which it knows for so long at
--   most: the first send; or the moment since which a restore may have forgotten one, where
--   the first that is known came so soon after that the rail may have told it the outcome of
--   that one; and so on, from restore to restore. payment.Claim has the same rule.
-- reads:   payment_outbox_keys, payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: replay_payment.
CREATE OR REPLACE FUNCTION {cell}.key_since(outbox_id uuid, known_for interval, first_sent_at timestamptz) RETURNS timestamptz
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
      -- A time to come is of a clock that stepped back, and is no age: it is later than all.
      since := CASE WHEN gap.known_until > clock_timestamp() THEN gap.known_until ELSE least(since, gap.known_until) END;
      EXIT WHEN since > clock_timestamp();
    END IF;
  END LOOP;
  RETURN since;
END
$$;
