-- known_sends(outbox_id uuid) -> (n bigint, first_at timestamptz, last_at timestamptz, render_version text)
--   The sends of an instruction that may have reached the rail, whatever their outcome, without
--   those that a restore forgot: their number, and the times of the first and the last of their
--   claims. The render_version of the first send also counts if that send was forgotten.
-- reads:   what sends_of reads.   locks: nothing.
-- called by: replay_payment, inquire_payment, require_rails_word.
CREATE OR REPLACE FUNCTION {cell}.known_sends(
  outbox_id uuid, OUT n bigint, OUT first_at timestamptz, OUT last_at timestamptz, OUT render_version text)
    RETURNS record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  SELECT count(*) FILTER (WHERE NOT s.forgotten), min(s.claimed_at) FILTER (WHERE NOT s.forgotten),
    max(s.claimed_at) FILTER (WHERE NOT s.forgotten),
    (array_agg(s.render_version ORDER BY s.claimed_at) FILTER (WHERE s.render_version IS NOT NULL))[1]
  INTO n, first_at, last_at, render_version
  FROM {cell}.sends_of($1) s;
END
$$;
