-- pause_of(rail_type text, participant_id text) -> text
--   The pause that prevents claims of a participant's instructions on a rail: 'everything is
--   paused', 'rail bank is paused' or 'participant p is paused'. Null if there is none.
-- reads:   payment_rails, payment_paused_participants.   locks: nothing.
-- called by: inquire_payment, replay_payment, require_rails_word.
CREATE OR REPLACE FUNCTION {cell}.pause_of(rail_type text, participant_id text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT x.what || ' is paused'
  FROM (
    SELECT CASE r.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || r.rail_type END AS what
    FROM {cell}.payment_rails r
    WHERE r.paused AND r.rail_type IN ('*', $1 COLLATE "C")
    UNION ALL
    SELECT 'participant ' || h.participant_id
    FROM {cell}.payment_paused_participants h
    WHERE h.participant_id = $2 COLLATE "C") x
  LIMIT 1
$$;
