-- Migration 45, each stop is kept. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function add_stop
CREATE OR REPLACE FUNCTION {cell}.add_stop(stops jsonb, standing text, standing_by text, reason text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  words_max CONSTANT integer := 50;
  this CONSTANT jsonb := jsonb_build_object('by', session_user, 'for', {cell}.acting_person(), 'said', $4);
  words jsonb := $1 -> 'words';
  left_out integer := $1 ->> 'left_out';
  place integer;
  newest boolean;
BEGIN
  IF $2 IS NULL THEN
    words := '[]';
    left_out := 0;
  ELSIF words IS NULL OR {cell}.text_of_stops($1) COLLATE "C" IS DISTINCT FROM $2 COLLATE "C" THEN
    words := jsonb_build_array(jsonb_build_object('by', $3, 'for', NULL, 'whole', true,
      'said', CASE WHEN length($2) > 1500 THEN left($2, 740) || ' ... ' || right($2, 740) ELSE $2 END));
    left_out := 0;
  END IF;
  SELECT e.n, NOT EXISTS (SELECT FROM jsonb_array_elements(words) WITH ORDINALITY AS later(word, n)
    WHERE later.n > e.n AND later.word -> 'by' = e.word -> 'by' AND later.word -> 'for' = e.word -> 'for')
  INTO place, newest
  FROM jsonb_array_elements(words) WITH ORDINALITY AS e(word, n)
  WHERE e.word - 'at' - 'whole' = this
  LIMIT 1;
  IF place = 1 OR newest THEN
    RETURN jsonb_build_object('left_out', left_out, 'words', words);
  ELSIF place IS NOT NULL THEN
    words := words - (place - 1);
  END IF;
  words := words || jsonb_build_array(this || jsonb_build_object('at',
    to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')));
  IF jsonb_array_length(words) > words_max THEN
    SELECT o.n INTO place
    FROM (
      SELECT e.n, lead(e.n) OVER (PARTITION BY e.word -> 'by', e.word -> 'for' ORDER BY e.n) IS NULL AS newest
      FROM jsonb_array_elements(words) WITH ORDINALITY AS e(word, n)) o
    WHERE o.n > 1
    ORDER BY o.newest, o.n
    LIMIT 1;
    words := words - (place - 1);
    left_out := left_out + 1;
  END IF;
  RETURN jsonb_build_object('left_out', left_out, 'words', words);
END
$$;
-- end of add_stop

-- function auto_pause_rail
CREATE OR REPLACE FUNCTION {cell}.auto_pause_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  asked jsonb;
BEGIN
  SELECT {cell}.add_stop(r.stops, CASE WHEN r.paused THEN r.pause_reason END, r.paused_by,
    left(auto_pause_rail.reason, 500)) INTO asked
  FROM {cell}.payment_rails r
  WHERE r.rail_type = auto_pause_rail.rail_type AND r.rail_type <> '*' AND NOT (r.paused AND r.auto_paused) FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, auto_paused = true, paused_by = CASE WHEN r.paused THEN r.paused_by ELSE session_user END,
    paused_at = CASE WHEN r.paused THEN r.paused_at ELSE clock_timestamp() END,
    pause_reason = {cell}.text_of_stops(asked), stops = asked, paused_until = NULL, updated_at = clock_timestamp()
  WHERE r.rail_type = auto_pause_rail.rail_type;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', auto_pause_rail.rail_type, NULL, left(auto_pause_rail.reason, 500));
  RETURN true;
END
$$;
-- end of auto_pause_rail

-- function close_enqueue
CREATE OR REPLACE FUNCTION {cell}.close_enqueue(scope text, name text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  -- This limit keeps the marks of all gates, and so the row of payment_outbox_rules, within one
  -- page.
  participants_max CONSTANT integer := 100;
  was_open boolean;
  asked jsonb;
BEGIN
  PERFORM {cell}.require_reason(close_enqueue.reason);
  PERFORM {cell}.require_end(close_enqueue.until);
  PERFORM {cell}.require_gate(close_enqueue.scope, close_enqueue.name);
  -- This lock serializes calls: whether the gate is closed, and how many are, does not change until
  -- the commit.
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  asked := {cell}.add_stop(NULL, NULL, NULL, close_enqueue.reason);
  INSERT INTO {cell}.payment_closed_gates (scope, name, closed_by, close_reason, closed_until, stops)
  VALUES (close_enqueue.scope, close_enqueue.name, session_user, {cell}.text_of_stops(asked), close_enqueue.until,
    asked)
  ON CONFLICT ON CONSTRAINT payment_closed_gates_pk DO NOTHING;
  was_open := FOUND;
  IF NOT was_open THEN
    SELECT {cell}.add_stop(g.stops, g.close_reason, g.closed_by, close_enqueue.reason) INTO asked
    FROM {cell}.payment_closed_gates g
    WHERE g.scope = close_enqueue.scope AND g.name = close_enqueue.name FOR UPDATE;
    UPDATE {cell}.payment_closed_gates g
    SET closed_until = CASE WHEN g.closed_until < close_enqueue.until OR close_enqueue.until IS NULL
      THEN close_enqueue.until ELSE g.closed_until END,
      close_reason = {cell}.text_of_stops(asked), stops = asked
    WHERE g.scope = close_enqueue.scope AND g.name = close_enqueue.name;
  END IF;
  IF (SELECT count(*) FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') > participants_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('enqueue is closed for %s participants already',
      participants_max),
      HINT = 'Close the rail or the whole cell, or open one of them first.';
  END IF;
  PERFORM {cell}.log_operator_act('CLOSE_ENQUEUE', close_enqueue.name, NULL, close_enqueue.reason,
    jsonb_strip_nulls(jsonb_build_object('scope', close_enqueue.scope, 'until', close_enqueue.until)));
  RETURN was_open;
END
$$;
-- end of close_enqueue

-- function end_pauses
CREATE OR REPLACE FUNCTION {cell}.end_pauses() RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  ended record;
BEGIN
  FOR ended IN
    SELECT r.rail_type, r.pause_reason FROM {cell}.payment_rails r
    WHERE r.paused AND r.paused_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
  LOOP
    UPDATE {cell}.payment_rails r
    SET paused = false, auto_paused = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
      paused_until = NULL, stops = NULL, updated_at = clock_timestamp()
    WHERE r.rail_type = ended.rail_type;
    PERFORM {cell}.log_operator_act('RESUME_RAIL', ended.rail_type,
      NULL, 'the end of the pause has come: ' || left(ended.pause_reason, 490));
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT CASE ended.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || ended.rail_type END;
  END LOOP;
  FOR ended IN
    SELECT p.participant_id, p.pause_reason FROM {cell}.payment_paused_participants p
    WHERE p.paused_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
  LOOP
    DELETE FROM {cell}.payment_paused_participants p WHERE p.participant_id = ended.participant_id;
    PERFORM {cell}.log_operator_act('RESUME_PARTICIPANT', ended.participant_id, NULL, 'the end of the pause has come: '
      || left(ended.pause_reason, 490));
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT 'participant ' || ended.participant_id;
  END LOOP;
  IF EXISTS (SELECT FROM {cell}.payment_closed_gates g WHERE g.closed_until <= clock_timestamp()) THEN
    PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      FOR ended IN
        DELETE FROM {cell}.payment_closed_gates g WHERE g.closed_until <= clock_timestamp()
        RETURNING g.scope, g.name, g.close_reason
      LOOP
        PERFORM {cell}.log_operator_act('OPEN_ENQUEUE', ended.name, NULL, 'the end of the closing has come: '
          || left(ended.close_reason, 490),
          jsonb_build_object('scope', ended.scope));
        RETURN NEXT 'enqueue for ' || CASE ended.scope WHEN 'cell' THEN 'everything' ELSE ended.scope || ' '
          || ended.name END;
      END LOOP;
    END IF;
  END IF;
END
$$;
-- end of end_pauses

-- function pause_participant
CREATE OR REPLACE FUNCTION {cell}.pause_participant(participant_id text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  paused boolean;
  asked jsonb;
BEGIN
  PERFORM {cell}.require_reason(pause_participant.reason);
  PERFORM {cell}.require_end(pause_participant.until);
  IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = pause_participant.participant_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_packed_participants p
      WHERE p.participant_id = pause_participant.participant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
      HINT = 'Check the participant_id.';
  END IF;
  LOOP
    asked := {cell}.add_stop(NULL, NULL, NULL, pause_participant.reason);
    INSERT INTO {cell}.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until, stops)
    VALUES (pause_participant.participant_id, session_user, {cell}.text_of_stops(asked), pause_participant.until, asked)
    ON CONFLICT DO NOTHING;
    paused := FOUND;
    EXIT WHEN paused;
    -- Where another session ends that pause, the insert does not wait for it. This does, and finds no row then.
    SELECT {cell}.add_stop(p.stops, p.pause_reason, p.paused_by, pause_participant.reason) INTO asked
    FROM {cell}.payment_paused_participants p
    WHERE p.participant_id = pause_participant.participant_id FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    UPDATE {cell}.payment_paused_participants p
    SET paused_until = CASE WHEN pause_participant.until IS NULL OR p.paused_until IS NULL THEN NULL
      ELSE greatest(p.paused_until, pause_participant.until) END,
      pause_reason = {cell}.text_of_stops(asked), stops = asked
    WHERE p.participant_id = pause_participant.participant_id;
    EXIT;
  END LOOP;
  PERFORM {cell}.log_operator_act('PAUSE_PARTICIPANT', pause_participant.participant_id, NULL, pause_participant.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_participant.until)));
  RETURN paused;
END
$$;
-- end of pause_participant

-- function pause_rail
CREATE OR REPLACE FUNCTION {cell}.pause_rail(rail_type text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  was boolean;
  asked jsonb;
BEGIN
  PERFORM {cell}.require_reason(pause_rail.reason);
  PERFORM {cell}.require_end(pause_rail.until);
  SELECT r.paused, {cell}.add_stop(r.stops, CASE WHEN r.paused THEN r.pause_reason END, r.paused_by, pause_rail.reason)
  INTO was, asked
  FROM {cell}.payment_rails r WHERE r.rail_type = pause_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(pause_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, paused_by = CASE WHEN was THEN r.paused_by ELSE session_user END,
    paused_at = CASE WHEN was THEN r.paused_at ELSE clock_timestamp() END,
    pause_reason = {cell}.text_of_stops(asked), stops = asked,
    paused_until = CASE
      WHEN NOT was OR r.paused_until < pause_rail.until OR pause_rail.until IS NULL THEN pause_rail.until
      ELSE r.paused_until END,
    updated_at = clock_timestamp()
  WHERE r.rail_type = pause_rail.rail_type;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', pause_rail.rail_type, NULL, pause_rail.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_rail.until)));
  RETURN NOT was;
END
$$;
-- end of pause_rail

-- function reason_of_both
CREATE OR REPLACE FUNCTION {cell}.reason_of_both(standing text, standing_by text, reason text) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN {cell}.text_of_stops({cell}.add_stop(NULL, $1, $2, $3));
END
$$;
-- end of reason_of_both

-- function recall_memory
CREATE OR REPLACE FUNCTION {cell}.recall_memory(name text, beats bigint, beaten_at timestamptz,
  outbox_id uuid, attempt_no integer, claimed_at timestamptz, own_name text)
RETURNS TABLE (beats_missing boolean, claim_missing boolean, vouched boolean, known boolean, outdated boolean,
  awaited text[], awaited_ms bigint, patience_ms bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH beat AS MATERIALIZED (
    SELECT h.name, h.kind, h.status, h.last_tick_at, h.stale_after_ms,
      h.server_started_at = pg_postmaster_start_time() AS here,
      h.vouched AND h.server_started_at = pg_postmaster_start_time() AS vouched,
      h.kind = 'relayer' AND h.vouched AND h.server_started_at <> pg_postmaster_start_time() AS vouched_before,
      CASE WHEN h.server_started_at = pg_postmaster_start_time() THEN h.tick_before_start
        ELSE h.last_tick_at END AS before_start
    FROM {cell}.outbox_heartbeats h
    WHERE h.kind IN ('relayer', 'reaper')
  ),
  own AS MATERIALIZED (
    SELECT h.beats, h.last_tick_at
    FROM {cell}.outbox_heartbeats h
    WHERE h.name = $1 COLLATE "C"
    UNION ALL
    SELECT h.beats, h.last_tick_at
    FROM {cell}.outbox_heartbeats h
    WHERE h.name = 'callback:' || $1 COLLATE "C" AND h.kind = 'callback' AND (
      SELECT bool_or(r.rolname = 'railhead_callbacks') AND bool_and(r.rolname <> 'railhead_executor')
      FROM pg_roles r
      WHERE r.rolname IN ('railhead_callbacks', 'railhead_executor') AND pg_has_role(session_user, r.oid, 'MEMBER'))
  ),
  awaited AS MATERIALIZED (
    SELECT b.name, b.stale_after_ms
    FROM beat b
    WHERE b.kind = 'relayer' AND b.status <> 'stopped' AND NOT b.here AND b.name <> $7
      AND b.last_tick_at > (SELECT coalesce(max(m.last_tick_at) FILTER (WHERE m.vouched_before), '-infinity')
        FROM beat m) - least(b.stale_after_ms, 86400000) * interval '1 millisecond'
    ORDER BY b.name
    LIMIT 20
  )
  SELECT
    $1::text IS NOT NULL
      AND NOT EXISTS (SELECT FROM own o WHERE o.beats >= $2::bigint)
      AND ($3::timestamptz > clock_timestamp() - interval '1 day'
        OR EXISTS (SELECT FROM own o WHERE o.last_tick_at <= $3)) AS beats_missing,
    $4::uuid IS NOT NULL AND ($6::timestamptz > clock_timestamp() - interval '1 day' OR NOT {cell}.left_the_archive($4))
      AND (
      SELECT true FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $4 AND a.attempt_no = $5::integer AND a.claimed_at = $6
      LIMIT 1) IS NULL AS claim_missing,
    EXISTS (SELECT FROM beat b WHERE b.vouched) AS vouched,
    EXISTS (SELECT FROM beat b WHERE b.kind = 'relayer') AS known,
    coalesce((SELECT max(b.before_start) FROM beat b
      WHERE b.kind = 'relayer') > $3::timestamptz + interval '15 minutes', false)
      OR coalesce($3::timestamptz <= clock_timestamp() - interval '1 day', false)
        AND NOT EXISTS (SELECT FROM own) AS outdated,
    ARRAY(SELECT w.name FROM awaited w ORDER BY w.name) AS awaited,
    coalesce((SELECT max(w.stale_after_ms) FROM awaited w), 0) AS awaited_ms,
    (SELECT s.heartbeat_stale_ms::bigint FROM {cell}.payment_outbox_settings s WHERE s.singleton) AS patience_ms
$$;
-- end of recall_memory

-- function refuse_unlogged_act
CREATE OR REPLACE FUNCTION {cell}.refuse_unlogged_act() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_has_role(current_user,
    (SELECT c.relowner FROM pg_class c WHERE c.oid = '{cell}.payment_outbox_attempts'::regclass), 'USAGE') THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = '42501',
    MESSAGE = format('%s is an act of an operator: %I may not write it into %I.%I',
      concat_ws(' ', NEW.state, NEW.error_code), current_user, TG_TABLE_SCHEMA, TG_TABLE_NAME),
    HINT = 'Acts of operators are written by cancel_payment, replay_payment, inquire_payment and resolve_payment, '
      'which log the operator and the reason.';
END
$$;
-- end of refuse_unlogged_act

-- function resume_rail
CREATE OR REPLACE FUNCTION {cell}.resume_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was boolean;
BEGIN
  PERFORM {cell}.require_reason(resume_rail.reason);
  SELECT r.paused INTO was FROM {cell}.payment_rails r WHERE r.rail_type = resume_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(resume_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = false, auto_paused = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
    paused_until = NULL, stops = NULL, updated_at = clock_timestamp()
  WHERE r.rail_type = resume_rail.rail_type;
  PERFORM {cell}.log_operator_act('RESUME_RAIL', resume_rail.rail_type, NULL, resume_rail.reason);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN was;
END
$$;
-- end of resume_rail

-- function text_of_stops
CREATE OR REPLACE FUNCTION {cell}.text_of_stops(stops jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  length_max CONSTANT integer := 2000;
  reason_max CONSTANT integer := 500;
  lengths CONSTANT integer[] := ARRAY[60, 90, 120, 160, 200, 250, 300, 400];
  -- Outside of ASCII "C" knows no letters, so that no unusual space between the two is another word.
  separator CONSTANT text := ';(?=[^[:alnum:];]{0,20}and)';
  labels text[];
  reasons text[];
  whole boolean[];
  leaving bigint[];
  last_at text;
  cut_at integer;
  result text;
  fitting text;
  shortened boolean;
BEGIN
  SELECT array_agg(regexp_replace(CASE WHEN w.n > 1 THEN w.login ELSE '' END
      || coalesce(CASE WHEN w.n > 1 THEN ' ' ELSE '' END || 'for ' || left(w.person, 64), '') COLLATE "C",
      separator, ',', 'gi') ORDER BY w.n),
    array_agg(CASE WHEN w.whole THEN w.said ELSE regexp_replace(w.said COLLATE "C", separator, ',', 'gi') END
      ORDER BY w.n),
    array_agg(w.whole ORDER BY w.n),
    array_agg(w.n ORDER BY w.newest, w.n) FILTER (WHERE w.n > 1),
    (array_agg(w.at ORDER BY w.n DESC))[1]
  INTO labels, reasons, whole, leaving, last_at
  FROM (
    SELECT e.n, e.word ->> 'by' AS login, e.word ->> 'for' AS person, e.word ->> 'said' AS said,
      e.word ? 'whole' AS whole, e.word ->> 'at' AS at,
      lead(e.n) OVER (PARTITION BY e.word -> 'by', e.word -> 'for' ORDER BY e.n) IS NULL AS newest
    FROM jsonb_array_elements($1 -> 'words') WITH ORDINALITY AS e(word, n)) w;
  -- All of it first, which is usual. Then the shortest form, without one more word each time, until it fits, and the
  -- longest one that fits.
  FOR gone IN 0 .. cardinality(labels) - 1 LOOP
    FOREACH cut_at IN ARRAY CASE WHEN gone = 0 THEN reason_max || lengths ELSE lengths END LOOP
      SELECT string_agg(CASE WHEN p.n > 1 THEN '; and ' ELSE '' END
          || CASE WHEN p.label <> '' COLLATE "C" THEN p.label || ': ' ELSE '' END
          || CASE WHEN p.cut THEN left(p.reason, cut_at) || ' ...' ELSE p.reason END, '' ORDER BY p.n),
        bool_or(p.cut)
      INTO result, shortened
      FROM (
        SELECT u.n, u.label, u.reason, NOT u.whole AND length(u.reason) > cut_at AS cut
        FROM unnest(labels, reasons, whole) WITH ORDINALITY AS u(label, reason, whole, n)
        WHERE u.n <> ALL (leaving[:gone]) IS NOT FALSE) p;
      IF gone + ($1 ->> 'left_out')::integer > 0 THEN
        result := format('%s; and %s more', result, gone + ($1 ->> 'left_out')::integer);
        shortened := true;
      END IF;
      IF shortened THEN
        result := format('%s (each is whole in railhead log, the last of %s)', result, last_at);
      END IF;
      IF length(result) <= length_max THEN
        fitting := result;
      END IF;
      EXIT WHEN cut_at = reason_max AND fitting IS NOT NULL OR cut_at < reason_max AND length(result) > length_max;
    END LOOP;
    EXIT WHEN fitting IS NOT NULL;
  END LOOP;
  RETURN fitting;
END
$$;
-- end of text_of_stops

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 45, serves 13'
$$;
-- end of schema_version

-- What was asked of a pause or of a closed gate, one word for each: see add_stop. Null: by a function of before.
ALTER TABLE {cell}.payment_rails ADD COLUMN stops jsonb;
ALTER TABLE {cell}.payment_paused_participants ADD COLUMN stops jsonb;
ALTER TABLE {cell}.payment_closed_gates ADD COLUMN stops jsonb;

-- The condition of before took a request with the number 0 of a claim, which the proofs count as an operator's.
-- Partitions, also later ones, have a copy of it with ENABLE ALWAYS.
CREATE OR REPLACE TRIGGER payment_outbox_attempts_acts
  BEFORE INSERT ON {cell}.payment_outbox_attempts
  FOR EACH ROW
  WHEN (NEW.state IN ('CANCELLED', 'REPLAYED') OR NEW.error_code = 'RESOLVED'
    OR NEW.state = 'UNKNOWN' AND NEW.error_code = 'ASKED' AND coalesce(NEW.answers_attempt_no, 0) = 0)
  EXECUTE FUNCTION {cell}.refuse_unlogged_act();
ALTER TABLE {cell}.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_acts;
