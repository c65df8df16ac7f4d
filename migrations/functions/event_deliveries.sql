-- event_deliveries(endpoint_id text, worker_id text, epoch bigint, participants text[], types text[],
--                  retries_max integer, rows_max integer)
--   -> setof (kind text, ...)
--   Returns the events that are to be delivered to an endpoint, to the worker that has its lease;
--   returns no row if another worker has it. Only events of these participants and types (null:
--   all) are returned. There are four kinds of rows, in this order:
--   FORGOTTEN  An event of payment_event_retries that is not delivered any more: it is not of these
--              participants and types, or is not in the archive, because a failover or a restore has
--              forgotten it or its month was detached.
--   RETRY      An event that is due again, with all events before it of its instruction; of at most
--              retries_max instructions, those that have waited longest first.
--   EVENT      An event after the endpoint's cursor, at the place at_*. in_place: no other event follows
--              at this place. behind: an earlier event of its instruction is in payment_event_retries.
--   END        The cursor from which the next call continues. in_place: the feed ended there. went_back:
--              the row of the endpoint's cursor is forgotten, and some events are delivered again.
--              waiting, given_up and oldest_at describe payment_event_retries. notes is the number by
--              which the worker notes its deliveries.
--   At most rows_max places (up to 2,000) are read. None is read while 1,000 events are to be
--   retried, not counting instructions of which one event is given up, or 10,000 in all.
-- errors:  55P03 if the archive stays locked for 5 s.
-- reads:   payment_event_endpoints, payment_event_retries, payment_outbox_attempts,
--          payment_outbox_keys, and what outcome_feed, outcome_place and event_outcome_unknown read.
-- locks:   nothing.   called by: events.
CREATE OR REPLACE FUNCTION {cell}.event_deliveries(endpoint_id text, worker_id text, epoch bigint, participants text[],
  types text[],
  retries_max integer, rows_max integer)
RETURNS TABLE (kind text, system_identifier text, at_xact xid8, at_outbox_id uuid, at_attempt_no integer,
  at_attempt_id uuid, in_place boolean,
  went_back boolean, behind boolean, tries integer, waiting integer, given_up integer, oldest_at timestamptz,
  notes bigint, event_type text, attempt_id uuid, outbox_id uuid, of_instruction text, of_participant text,
  sequence_id bigint, attempt_no integer, state text, created_at timestamptz, rail_type text, rail_reference text,
  rail_code text, error_code text, outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  now_at CONSTANT timestamptz := clock_timestamp();
  most   integer := least(greatest(coalesce($7, 100), 0), 2000);
  asked  {cell}.payment_event_endpoints;
  place  record;
  all_   record;
BEGIN
  SELECT e.* INTO asked FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 AND e.worker_id = $2
    AND e.epoch = $3;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT p.to_xact AS xact, p.to_outbox_id AS outbox_id, p.to_attempt_no AS attempt_no, p.went_back,
    CASE WHEN NOT p.went_back THEN asked.place_attempt_id END AS attempt_id
  INTO place
  FROM {cell}.outcome_place(asked.place_xact, asked.place_outbox_id, asked.place_attempt_no, asked.place_attempt_id,
    asked.place_system) p;
  SELECT count(*)::integer AS waiting, (count(*) FILTER (WHERE NOT isfinite(r.next_at)))::integer AS given_up,
    min(r.created_at) AS oldest_at, (count(*) FILTER (WHERE NOT r.is_stuck))::integer AS active
  INTO all_
  FROM (
    SELECT w.next_at, w.created_at, bool_or(NOT isfinite(w.next_at)) OVER (PARTITION BY w.outbox_id) AS is_stuck
    FROM {cell}.payment_event_retries w
    WHERE w.endpoint_id = $1) r;
  IF all_.active >= 1000 OR all_.waiting >= 10000 THEN
    most := 0;
  END IF;

  RETURN QUERY
  WITH due AS MATERIALIZED (
    SELECT r.*
    FROM (
      -- The first event of each instruction, if it is due.
      SELECT f.outbox_id, f.next_at
      FROM (
        SELECT DISTINCT ON (w.outbox_id) w.outbox_id, w.next_at
        FROM {cell}.payment_event_retries w
        WHERE w.endpoint_id = $1
        ORDER BY w.outbox_id, w.attempt_no) f
      WHERE f.next_at <= now_at
      ORDER BY f.next_at, f.outbox_id
      LIMIT greatest(coalesce($6, 0), 0)) first
    JOIN {cell}.payment_event_retries r ON r.endpoint_id = $1 AND r.outbox_id = first.outbox_id
    WHERE NOT EXISTS (
      SELECT FROM {cell}.payment_event_retries b
      WHERE b.endpoint_id = $1 AND b.outbox_id = r.outbox_id AND b.attempt_no <= r.attempt_no AND b.next_at > now_at)
  ),
  feed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY f.at_xact, f.at_outbox_id, f.at_attempt_no, f.attempt_no) AS no, f.*
    FROM {cell}.outcome_feed(place.xact, place.outbox_id, place.attempt_no, most, false) f
    WHERE most > 0
  ),
  newest AS (
    SELECT f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id
    FROM feed f
    ORDER BY f.no DESC
    LIMIT 1
  )
  SELECT x.kind, s.system_identifier::text, x.at_xact, x.at_outbox_id, x.at_attempt_no, x.at_attempt_id, x.in_place,
    x.went_back, x.behind, x.tries, all_.waiting, all_.given_up, all_.oldest_at, asked.notes, x.event_type,
    x.attempt_id, x.outbox_id, x.of_instruction, x.of_participant, x.sequence_id, x.attempt_no, x.state, x.created_at,
    x.rail_type, x.rail_reference, x.rail_code, x.error_code, x.outcome_unknown
  FROM pg_control_system() s
  CROSS JOIN (
    SELECT CASE WHEN t.is_told THEN 2 ELSE 1 END AS part, 0::bigint AS no, CASE WHEN t.is_told THEN 'RETRY'
      ELSE 'FORGOTTEN' END AS kind,
      NULL::xid8 AS at_xact, NULL::uuid AS at_outbox_id, NULL::integer AS at_attempt_no, NULL::uuid AS at_attempt_id,
      NULL::boolean AS in_place, NULL::boolean AS went_back, false AS behind, d.tries, d.event_type, d.attempt_id,
      d.outbox_id, coalesce(k.instruction_id, a.instruction_id) AS of_instruction,
      coalesce(k.participant_id, a.participant_id) AS of_participant,
      coalesce(k.sequence_id, a.sequence_id) AS sequence_id, d.attempt_no, a.state::text AS state,
      coalesce(a.created_at, d.created_at) AS created_at, a.rail_type, a.rail_reference, a.rail_code, a.error_code,
      {cell}.event_outcome_unknown(a.outbox_id, a.state, a.outcome_unknown) AS outcome_unknown
    FROM due d
    LEFT JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = d.outbox_id AND a.attempt_no = d.attempt_no
      AND a.attempt_id = d.attempt_id
    LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = d.outbox_id
    CROSS JOIN LATERAL (
      SELECT a.attempt_id IS NOT NULL
        AND ($4 IS NULL OR coalesce(k.participant_id, a.participant_id) COLLATE "C" = ANY ($4))
        AND ($5 IS NULL OR d.event_type = ANY ($5)) AS is_told) t
    UNION ALL
    SELECT 3, f.no, 'EVENT', f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id, f.in_place, NULL,
      EXISTS (SELECT FROM {cell}.payment_event_retries b WHERE b.endpoint_id = $1 AND b.outbox_id = f.outbox_id), 0,
        f.event_type, f.attempt_id,
      f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.attempt_no, f.state, f.created_at, f.rail_type,
      f.rail_reference, f.rail_code, f.error_code, f.outcome_unknown
    FROM feed f
    WHERE f.event_type IS NOT NULL AND ($4 IS NULL OR f.participant_id COLLATE "C" = ANY ($4))
      AND ($5 IS NULL OR f.event_type = ANY ($5))
    UNION ALL
    SELECT 4, 0, 'END', coalesce(l.at_xact, place.xact), coalesce(l.at_outbox_id, place.outbox_id),
      coalesce(l.at_attempt_no, place.attempt_no), coalesce(l.at_attempt_id, place.attempt_id), most = 0
        OR (SELECT count(*) FROM feed f WHERE f.in_place) < most, place.went_back,
      false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM (VALUES (1)) AS one(n)
    LEFT JOIN newest l ON true) x
  ORDER BY x.part, x.no, x.outbox_id, x.attempt_no;
END
$$;
