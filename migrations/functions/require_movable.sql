-- require_movable(bucket integer) -> void
--   Refuses a move of a bucket while one of its participants is paused or its gate is closed, which would not
--   hold in the other cell, or while a payment of it is not resolved on a rail that keeps their order, which
--   the other cell would overtake.
-- errors:  RH020 there is such a participant, which the message names.
-- reads:   payment_paused_participants, payment_closed_gates, payment_outbox_pending, payment_outbox_claims,
--          payment_dead_letters, payment_outbox_keys, payment_outbox_attempts, payment_operator_log, payment_rails,
--          payment_rail_profiles.   writes, locks: nothing.
-- called by: pack_bucket.
CREATE OR REPLACE FUNCTION {cell}.require_movable(bucket integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  stop record;
BEGIN
  SELECT w.participant_id, w.why INTO stop
  FROM (
    SELECT h.participant_id, 'it is paused here, and would not be there: resume it first' AS why
    FROM {cell}.payment_paused_participants h
    UNION ALL
    SELECT g.name, 'its gate is closed here, and would not be there: open it first'
    FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant'
    UNION ALL
    SELECT o.participant_id, format('rail %s keeps the order of its payments, and one of them is not resolved',
      o.rail_type)
    FROM (
      SELECT p.participant_id, p.rail_type, NULL::uuid AS letter FROM {cell}.payment_outbox_pending p
      UNION ALL
      SELECT k.participant_id, d.rail_type, d.outbox_id
      FROM {cell}.payment_dead_letters d
      JOIN {cell}.payment_outbox_keys k ON k.outbox_id = d.outbox_id
      WHERE d.status NOT IN ({closed_letters})) o
    JOIN {cell}.payment_rails r ON r.rail_type = o.rail_type
    JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
    LEFT JOIN LATERAL (
      SELECT a.state::text AS state, a.attempt_no FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.letter AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC LIMIT 1) last ON true
    WHERE coalesce(f.profile -> 'order_participants' ->> o.participant_id, f.profile ->> 'order') = 'STRICT'
      -- A letter that holds up nothing in its line (advance_order_lines) doesn't here.
      AND (o.letter IS NULL OR NOT (coalesce(f.profile ->> 'order_on_bad_end', 'BLOCK') = 'SKIP'
        AND coalesce(last.state IN ({ended_states}), false)) AND NOT EXISTS (
        SELECT FROM {cell}.payment_operator_log l
        WHERE l.outbox_id = o.letter AND l.act = 'SKIP_IN_ORDER'
          AND (l.detail ->> 'attempt_no')::integer = coalesce(last.attempt_no, 0)))
    UNION ALL
    SELECT k.participant_id, 'one of its payments is claimed, and its rail may keep the order'
    FROM {cell}.payment_outbox_claims c
    CROSS JOIN LATERAL unnest(c.outbox_ids) AS m(outbox_id)
    JOIN {cell}.payment_outbox_keys k ON k.outbox_id = m.outbox_id
    WHERE EXISTS (
      SELECT FROM {cell}.payment_rails r
      JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
      WHERE coalesce(f.profile -> 'order_participants' ->> k.participant_id, f.profile ->> 'order') = 'STRICT')) w
  WHERE {cell}.cell_bucket(w.participant_id) = $1
  ORDER BY w.participant_id
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('participant %s of bucket %s can''t be moved now: %s', quote_literal(stop.participant_id), $1,
        stop.why),
      HINT = 'Repeat railhead cell move once that is so, or end the move: railhead cell move --cancel.';
  END IF;
END
$$;
