-- api_events(tokens bytea[], certificates bytea[], participants text[], types text[], since timestamptz,
--            place_system text, place_xact xid8, place_outbox_id uuid, place_attempt_no integer, place_attempt_id
--            uuid, rows_max integer)
--   -> setof (kind text, items integer[], ...)
--   Returns events to many readers whose cursors are at the same place of outcome_feed. Item n
--   consists of the digest of its token, the digest of its certificate's key (or null), the
--   participants of the token that it asks for (the text of a text[]; null: all), and the types of
--   events likewise. There are three kinds of rows, in this order:
--   REFUSED  These items are not served. why is TOKEN, VERB or PARTICIPANT.
--   EVENT    An event for these items, at the place at_*. in_place: no other event follows at this place.
--   END      The cursor from which the next call continues. why is the identifier of the database system.
--            in_place: the feed ended there. went_back: the row of the given place is forgotten, and some
--            events are delivered again. created_at: the time of the first row that is withheld, because an
--            earlier transaction is still in progress.
--   At most rows_max places (up to 2,000) are read. If rows_max is 0, none is read and END is the
--   newest place. If no place is given, the events start at the time since.
--   A token that was revoked while the statement runs that calls this is still served by it.
-- errors:  RH005 more than 10,000 items, 25001 above READ COMMITTED.
-- reads:   payment_api_tokens, and what outcome_feed and outcome_place read.
-- locks:   nothing.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_events(tokens bytea[], certificates bytea[], participants text[], types text[],
  since timestamptz,
  place_system text, place_xact xid8, place_outbox_id uuid, place_attempt_no integer, place_attempt_id uuid,
  rows_max integer)
RETURNS TABLE (kind text, items integer[], why text, at_xact xid8, at_outbox_id uuid, at_attempt_no integer,
  at_attempt_id uuid,
  in_place boolean, went_back boolean, event_type text, attempt_id uuid, outbox_id uuid, of_instruction text,
  of_participant text, sequence_id bigint, attempt_no integer, state text, created_at timestamptz, rail_type text,
  rail_reference text, rail_code text, error_code text, outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  most  CONSTANT integer := least(greatest(coalesce(api_events.rows_max, 100), 0), 2000);
  place record;
  top   record;
  held  timestamptz;
BEGIN
  PERFORM {cell}.require_fresh_snapshot();
  IF cardinality(tokens) > 10000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s readers are more than 10000', cardinality(tokens)),
      HINT = 'Ask for fewer at once.';
  END IF;
  SELECT p.to_xact AS xact, p.to_outbox_id AS outbox_id, p.to_attempt_no AS attempt_no, p.went_back,
    CASE WHEN NOT p.went_back THEN place_attempt_id END AS attempt_id
  INTO place
  FROM {cell}.outcome_place(place_xact, place_outbox_id, place_attempt_no, place_attempt_id, place_system) p;
  SELECT n.* INTO top FROM {cell}.outcome_newest() n;
  IF most > 0 AND place_xact IS NULL AND since IS NOT NULL THEN
    place.xact := {cell}.outcome_feed_since(since);
  END IF;
  SELECT a.created_at INTO held
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ({claim_states}) AND a.xact >= pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY a.xact
  LIMIT 1;

  RETURN QUERY
  WITH asked AS MATERIALIZED (
    SELECT i.n::integer AS n, i.participants::text[] AS participants, i.types::text[] AS types,
      t.participants AS allowed, coalesce({cell}.api_token_refusal(t, i.certificate, 'READ', ''),
        CASE WHEN NOT i.participants::text[] COLLATE "C" <@ t.participants THEN 'PARTICIPANT' END) AS why
    FROM unnest(tokens, certificates, participants, types) WITH ORDINALITY AS i(token, certificate, participants, types,
      n)
    LEFT JOIN {cell}.payment_api_tokens t ON t.token_digest = sha256(i.token)
  ),
  feed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY f.at_xact, f.at_outbox_id, f.at_attempt_no, f.attempt_no) AS no, f.*
    FROM {cell}.outcome_feed(place.xact, place.outbox_id, place.attempt_no, most, false) f
    WHERE most > 0
  ),
  heard AS (
    SELECT f.no, array_agg(DISTINCT a.n) AS items
    FROM asked a
    CROSS JOIN LATERAL (SELECT DISTINCT u.participant_id FROM unnest(coalesce(a.participants, a.allowed))
      AS u(participant_id)) p
    JOIN feed f ON f.participant_id = p.participant_id COLLATE "C"
    WHERE a.why IS NULL AND f.event_type IS NOT NULL AND (a.types IS NULL OR f.event_type = ANY (a.types))
    GROUP BY f.no
  ),
  newest AS (
    SELECT f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id
    FROM feed f
    ORDER BY f.no DESC
    LIMIT 1
  )
  SELECT x.kind, x.items, x.why, x.at_xact, x.at_outbox_id, x.at_attempt_no, x.at_attempt_id, x.in_place, x.went_back,
    f.event_type, f.attempt_id, f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.attempt_no, f.state,
    CASE x.kind WHEN 'END' THEN held ELSE f.created_at END, f.rail_type, f.rail_reference, f.rail_code, f.error_code,
      f.outcome_unknown
  FROM (
    SELECT 1 AS part, 'REFUSED' AS kind, 0::bigint AS no, array_agg(a.n ORDER BY a.n) AS items, a.why,
      NULL::xid8 AS at_xact, NULL::uuid AS at_outbox_id, NULL::integer AS at_attempt_no, NULL::uuid AS at_attempt_id,
      NULL::boolean AS in_place, NULL::boolean AS went_back
    FROM asked a
    WHERE a.why IS NOT NULL
    GROUP BY a.why
    UNION ALL
    SELECT 2, 'EVENT', h.no, h.items, NULL, f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id, f.in_place,
      NULL
    FROM heard h
    JOIN feed f ON f.no = h.no
    UNION ALL
    SELECT 3, 'END', 0, NULL, s.system_identifier::text, coalesce(l.at_xact, top.xact, place.xact),
      coalesce(l.at_outbox_id, top.outbox_id, place.outbox_id),
      coalesce(l.at_attempt_no, top.attempt_no, place.attempt_no), coalesce(l.at_attempt_id, top.attempt_id), most > 0
        AND (SELECT count(*) FROM feed f WHERE f.in_place) < most, place.went_back
    FROM pg_control_system() s
    LEFT JOIN newest l ON true) x
  LEFT JOIN feed f ON x.kind = 'EVENT' AND f.no = x.no
  ORDER BY x.part, x.no;
END
$$;
