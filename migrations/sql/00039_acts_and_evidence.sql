-- Migration 39, acts and evidence. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function accept_timeline
CREATE OR REPLACE FUNCTION {cell}.accept_timeline(reason text, since timestamptz DEFAULT NULL)
RETURNS TABLE (system_identifier text, timeline bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  suspended {cell}.payment_outbox_suspensions; -- the open one
  shape     CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS"Z"';
  what      text; -- what has to be compared
  foreigners record;
BEGIN
  PERFORM {cell}.require_reason(accept_timeline.reason);
  SELECT s.system_identifier::text INTO accept_timeline.system_identifier FROM pg_control_system() s;
  accept_timeline.timeline := {cell}.server_timeline();
  SELECT s.* INTO suspended FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL FOR UPDATE;
  what := CASE WHEN suspended.known_until > '-infinity' THEN 'was sent since ' || to_char(suspended.known_until, shape)
    ELSE 'was ever sent' END;
  IF suspended.suspension_id IS NULL THEN
    IF since IS NOT NULL AND NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s WHERE date_trunc('second', s.opened_at) = date_trunc('second',
        since))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('no suspension is open, and none was opened at %s', to_char(since, shape)),
        HINT = 'See opened_at of payment_outbox_suspensions. If the server has forgotten it, a relayer finds that out '
          'within seconds.';
    END IF;
    IF EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer') AND NOT {cell}.server_is_settled() THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the server was started or promoted, and no relayer has confirmed since that nothing is missing: '
          'what it may have forgotten is not known yet',
        HINT = 'Start a relayer, or wait until one has compared the server with what it remembers. If lanes are '
          'suspended then, compare with the rails what was sent since known_until of payment_outbox_suspensions, '
          'and repeat this.';
    END IF;
  ELSIF (suspended.system_identifier, suspended.timeline, suspended.server_started_at)
    IS DISTINCT FROM (accept_timeline.system_identifier, accept_timeline.timeline, pg_postmaster_start_time())
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the server was started or promoted after the suspension was opened, and no relayer has checked it '
        'since: it may have forgotten more than you have compared',
      HINT = 'Start a relayer, or wait some seconds until one has checked the server. Then compare with the rails '
        'what was sent since known_until of payment_outbox_suspensions, and repeat this.';
  ELSIF since IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('lanes have been suspended since %s: confirm that you have compared with the rails for this suspension', to_char(suspended.opened_at, shape)),
      HINT = format('Compare with the rails what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  ELSIF date_trunc('second', suspended.opened_at) <> date_trunc('second', since) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('lanes have been suspended since %s, but you have compared the suspension of %s: the server may have gone back again since, and forgotten the acts by which you ended payments',
        to_char(suspended.opened_at, shape), to_char(since, shape)),
      HINT = format('Compare with the rails again what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  END IF;
  IF EXISTS (SELECT FROM {cell}.payment_cells) AND NOT {cell}.server_is_settled() THEN
    PERFORM {cell}.require_confirmed_map('accepting the server');
    SELECT count(*) AS n, min(p.participant_id) AS first INTO foreigners
    FROM (
      SELECT w.outbox_id, w.participant_id, w.created_at FROM {cell}.payment_outbox_pending w
      UNION ALL
      SELECT r.outbox_id, r.participant_id, r.created_at
      FROM {cell}.payment_outbox_claims c
      CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
      CROSS JOIN LATERAL (
        SELECT t.outbox_id, t.participant_id, t.created_at FROM {cell}.payment_outbox_keys t
        WHERE t.outbox_id = m.outbox_id LIMIT 1) r
      WHERE (SELECT true FROM {cell}.payment_outbox_attempts z WHERE z.outbox_id = m.outbox_id AND z.attempt_no > m.attempt_no AND z.state <> 'LATE_OUTCOME' LIMIT 1) IS NULL) p
    JOIN {cell}.payment_buckets b ON b.bucket = {cell}.cell_bucket(p.participant_id)
    WHERE (b.contradicted OR b.cell IS DISTINCT FROM (SELECT c.name FROM {cell}.payment_cells c WHERE c.here)
        -- The bucket was another cell's, and is this one's again.
        OR EXISTS (
          SELECT FROM {cell}.payment_cell_changes o
          WHERE o.bucket = b.bucket AND o.cell_id <> (SELECT c.cell_id FROM {cell}.payment_cells c WHERE c.here)
            AND (NOT b.mine OR p.created_at <= o.stored_at)))
      AND NOT EXISTS (
        -- Its key went along with the bucket, and no other cell has taken that without keys since.
        SELECT FROM {cell}.payment_packed_participants m
        JOIN {cell}.payment_bucket_moves v ON v.bucket = m.bucket AND v.version = m.version
        JOIN {cell}.payment_cell_changes c ON c.bucket = m.bucket AND c.version = m.version AND c.digest = v.digest
        JOIN {cell}.payment_outbox_keys k ON k.outbox_id = p.outbox_id AND k.sequence_id < m.next_sequence_id
        WHERE m.participant_id = p.participant_id AND NOT EXISTS (
          SELECT FROM {cell}.payment_cell_changes s
          WHERE s.bucket = m.bucket AND s.version >= m.version AND s.settles
            AND s.cell_id <> (SELECT c.cell_id FROM {cell}.payment_cells c WHERE c.here)))
      AND NOT EXISTS (SELECT FROM {cell}.payment_paused_participants h WHERE h.participant_id = p.participant_id
        AND h.paused_until IS NULL);
    IF foreigners.n > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s payments that are pending or claimed are of participants of other cells, or of ones that another cell had meanwhile, such as %s: the same keys may be enqueued there',
          foreigners.n, quote_literal(foreigners.first)),
        HINT = 'Pause these participants here without an end (railhead participant pause), repeat this, compare each '
          'payment with the other cell, and cancel it here if that has enqueued it, too. One that it answers with '
          'ELSEWHERE and the outbox_id of this cell is only here; with another outbox_id it is in a third cell, too.';
    END IF;
  END IF;
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
  VALUES (accept_timeline.system_identifier, accept_timeline.timeline, accept_timeline.reason)
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.suspension_id = suspended.suspension_id;
  PERFORM {cell}.log_operator_act('ACCEPT_TIMELINE',
    format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline), NULL, accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

-- function apply_rail_profile
CREATE OR REPLACE FUNCTION {cell}.apply_rail_profile(rail_type text, profile jsonb, reason text)
RETURNS TABLE (version integer, changed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was jsonb; -- the profile before
BEGIN
  PERFORM {cell}.require_reason(apply_rail_profile.reason);
  IF jsonb_typeof(apply_rail_profile.profile) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a profile must be a JSON object';
  END IF;
  LOCK TABLE {cell}.payment_rails IN SHARE ROW EXCLUSIVE MODE;
  SELECT p.version, p.profile INTO apply_rail_profile.version, was
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = apply_rail_profile.rail_type;
  IF was = apply_rail_profile.profile THEN
    changed := false;
    RETURN NEXT;
    RETURN;
  END IF;
  changed := true;
  SELECT coalesce(max(p.version), 0) + 1 INTO apply_rail_profile.version
  FROM {cell}.payment_rail_profiles p WHERE p.rail_type = apply_rail_profile.rail_type;
  INSERT INTO {cell}.payment_rail_profiles (rail_type, version, profile, reason)
  VALUES (apply_rail_profile.rail_type, apply_rail_profile.version, apply_rail_profile.profile,
    apply_rail_profile.reason);
  INSERT INTO {cell}.payment_rails AS r (rail_type, profile_version)
  VALUES (apply_rail_profile.rail_type, apply_rail_profile.version)
  ON CONFLICT ON CONSTRAINT payment_rails_pk
  DO UPDATE SET profile_version = excluded.profile_version, updated_at = clock_timestamp();
  IF (was -> 'order', was -> 'order_participants', was -> 'order_on_bad_end') IS DISTINCT FROM
    (apply_rail_profile.profile -> 'order', apply_rail_profile.profile -> 'order_participants',
      apply_rail_profile.profile -> 'order_on_bad_end')
  THEN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE EXCEPTION USING ERRCODE = '25000',
        MESSAGE = 'the order of participants can''t be changed in a transaction of ' || current_setting('transaction_isolation'),
        DETAIL = 'It does not see what was replayed since it began, and the line would begin behind that.',
        HINT = 'Apply the profile in READ COMMITTED, as railhead rail apply does.';
    END IF;
    -- What is replayed meanwhile finds the lines and the profile, or is found here: see note_order_change.
    PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.order_of_rail ' || apply_rail_profile.rail_type, 0));
    -- What is there of participants that are no longer ordered is removed, because nothing keeps it true. A turn or an act
    -- that commits later can leave a line or a mark. It has no effect, and a profile that orders them again resets it.
    DELETE FROM {cell}.payment_order_lines h
    WHERE h.rail_type = apply_rail_profile.rail_type
      AND coalesce(apply_rail_profile.profile -> 'order_participants' ->> h.participant_id,
        apply_rail_profile.profile ->> 'order') IS DISTINCT FROM 'STRICT';
    DELETE FROM {cell}.payment_order_marks m
    WHERE m.rail_type = apply_rail_profile.rail_type
      AND coalesce(apply_rail_profile.profile -> 'order_participants' ->> m.participant_id,
        apply_rail_profile.profile ->> 'order') IS DISTINCT FROM 'STRICT';
    -- The line of one that is ordered from now on begins at the lowest number that may be unresolved.
    INSERT INTO {cell}.payment_order_lines AS h (rail_type, participant_id, floor)
    SELECT apply_rail_profile.rail_type, coalesce(s.participant_id, u.participant_id),
      coalesce(u.first_no, s.next_sequence_id)
    FROM {cell}.participant_outbox_sequences s
    FULL JOIN ( -- one that was moved to another cell has no counter, and payments that stay
      SELECT k.participant_id, min(k.sequence_id) AS first_no
      FROM (
        SELECT p.outbox_id FROM {cell}.payment_outbox_pending p WHERE p.rail_type = apply_rail_profile.rail_type
        UNION ALL
        SELECT m.outbox_id FROM {cell}.payment_outbox_claims f CROSS JOIN LATERAL unnest(f.outbox_ids) AS m(outbox_id)
        UNION ALL
        SELECT d.outbox_id FROM {cell}.payment_dead_letters d
        WHERE d.rail_type = apply_rail_profile.rail_type AND d.status NOT IN ('manual_replay', 'resolved')) o
      JOIN {cell}.payment_outbox_keys k ON k.outbox_id = o.outbox_id
      GROUP BY k.participant_id) u ON u.participant_id = s.participant_id
    WHERE coalesce(apply_rail_profile.profile -> 'order_participants' ->> coalesce(s.participant_id, u.participant_id),
        apply_rail_profile.profile ->> 'order') = 'STRICT'
      AND coalesce(was -> 'order_participants' ->> coalesce(s.participant_id, u.participant_id), was ->> 'order')
        IS DISTINCT FROM 'STRICT'
    ORDER BY 2
    ON CONFLICT ON CONSTRAINT payment_order_lines_pk DO UPDATE SET floor = excluded.floor, head = NULL, head_no = NULL,
      priority = NULL, ready_at = NULL, blocked_by = NULL, blocked_since = NULL;
    INSERT INTO {cell}.payment_order_marks (rail_type, participant_id)
    SELECT h.rail_type, h.participant_id FROM {cell}.payment_order_lines h
    WHERE h.rail_type = apply_rail_profile.rail_type;
  END IF;
  PERFORM {cell}.log_operator_act('APPLY_PROFILE', apply_rail_profile.rail_type, NULL, apply_rail_profile.reason,
    jsonb_build_object('version', apply_rail_profile.version));
  RETURN NEXT;
END
$$;
-- end of apply_rail_profile

-- function auto_pause_rail
CREATE OR REPLACE FUNCTION {cell}.auto_pause_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  UPDATE {cell}.payment_rails r
  SET paused = true, auto_paused = true, paused_by = session_user, paused_at = clock_timestamp(),
    pause_reason = left(auto_pause_rail.reason, 500), updated_at = clock_timestamp()
  WHERE r.rail_type = auto_pause_rail.rail_type AND r.rail_type <> '*' AND NOT r.paused;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
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
BEGIN
  PERFORM {cell}.require_reason(close_enqueue.reason);
  PERFORM {cell}.require_end(close_enqueue.until);
  PERFORM {cell}.require_gate(close_enqueue.scope, close_enqueue.name);
  -- This lock serializes calls: whether the gate is closed, and how many are, does not change until
  -- the commit.
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  INSERT INTO {cell}.payment_closed_gates (scope, name, closed_by, close_reason, closed_until)
  VALUES (close_enqueue.scope, close_enqueue.name, session_user, left(close_enqueue.reason, 500), close_enqueue.until)
  ON CONFLICT ON CONSTRAINT payment_closed_gates_pk DO NOTHING;
  was_open := FOUND;
  IF NOT was_open THEN
    UPDATE {cell}.payment_closed_gates g
    SET closed_until = close_enqueue.until
    WHERE g.scope = close_enqueue.scope AND g.name = close_enqueue.name
      AND (g.closed_until < close_enqueue.until OR g.closed_until IS NOT NULL AND close_enqueue.until IS NULL);
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

-- function create_api_token
CREATE OR REPLACE FUNCTION {cell}.create_api_token(token_digest bytea, name text, participants text[], verbs text[],
  expires_at timestamptz, reason text,
  requests_per_minute integer DEFAULT NULL, certificate_sha256 bytea DEFAULT NULL) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  id   CONSTANT text := left(encode($1, 'hex'), 16);
  bad  text;
BEGIN
  PERFORM {cell}.require_reason(create_api_token.reason);
  IF create_api_token.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the token would already be expired',
      HINT = 'Give a later expiry, at most 400 days ahead.';
  END IF;
  SELECT p.name INTO bad FROM unnest($3) AS p(name)
  WHERE p.name IS NULL OR length(p.name) NOT BETWEEN 1 AND 128 OR p.name COLLATE "C" ~ '[^ -~]'
    OR p.name <> btrim(p.name) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a participant must be 1 to 128 printable ASCII characters without spaces at its ends',
      HINT = 'Use the participant_id of the enqueued instructions.';
  END IF;
  BEGIN
    INSERT INTO {cell}.payment_api_tokens (token_digest, token_id, name, participants, verbs, expires_at,
      requests_per_minute, certificate_sha256)
    VALUES ($1, id, $2, $3, $4, $5, $7, $8);
  EXCEPTION WHEN check_violation OR not_null_violation THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the token is not valid: ' || SQLERRM,
      HINT = 'It needs a name, participants, verbs among ENQUEUE, READ and CANCEL, and an expiry at most 400 days '
        'ahead.';
  END;
  PERFORM {cell}.log_operator_act('CREATE_TOKEN', id, NULL, create_api_token.reason,
    jsonb_strip_nulls(jsonb_build_object(
    'name', $2, 'participants', $3, 'verbs', $4, 'expires_at', $5, 'requests_per_minute', $7, 'certificate_sha256',
      encode($8, 'hex'))));
  RETURN id;
END
$$;
-- end of create_api_token

-- function given_up_events
CREATE OR REPLACE FUNCTION {cell}.given_up_events(of_endpoint text)
RETURNS TABLE (endpoint_id text, events integer, mark bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT r.endpoint_id, count(*)::integer, bit_xor(hashtextextended(format('%s %s', r.outbox_id, r.attempt_no), 0))
  FROM {cell}.payment_event_retries r
  WHERE NOT isfinite(r.next_at) AND ($1 IS NULL OR r.endpoint_id = $1 COLLATE "C")
  GROUP BY r.endpoint_id;
END
$$;
-- end of given_up_events

-- function log_operator_act
CREATE OR REPLACE FUNCTION {cell}.log_operator_act(act text, subject text, outbox_id uuid, reason text,
  detail jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM {cell}.require_durable_commit();
  INSERT INTO {cell}.payment_operator_log (act, subject, outbox_id, reason, detail) VALUES ($1, $2, $3, $4, $5);
END
$$;
-- end of log_operator_act

-- function packed_keys
CREATE OR REPLACE FUNCTION {cell}.packed_keys(bucket integer, version integer, after text, after_no bigint,
  after_id uuid, most integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  most  CONSTANT integer := least($6, 10000);
  parts jsonb[] := '{}'; -- the keys of each participant
  part  jsonb;
  n     integer := 0;
  one   text COLLATE "C";
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the transaction has written something: it could still take back the row of the operator log',
      HINT = 'Commit pack_bucket first, then call packed_keys in a transaction of its own.';
  END IF;
  FOR one IN
    SELECT p.participant_id FROM {cell}.payment_packed_participants p
    WHERE p.bucket = $1 AND p.version = $2 AND p.participant_id >= $3 COLLATE "C"
    ORDER BY p.participant_id
  LOOP
    SELECT coalesce(jsonb_agg(jsonb_build_object('participant_id', k.owner, 'sequence_id', k.sequence_id,
      'outbox_id', k.outbox_id, 'created_at', k.created_at, 'instruction_id', k.instruction_id,
      'idempotency_key', k.idempotency_key, 'fingerprint', encode(k.fingerprint, 'hex'))
      ORDER BY k.sequence_id, k.outbox_id), '[]') INTO part
    FROM {cell}.moved_keys(one, CASE WHEN one = $3 COLLATE "C" THEN $4 ELSE -1 END, $5, most - n) k;
    parts := parts || part;
    n := n + jsonb_array_length(part);
    EXIT WHEN n >= most;
  END LOOP;
  RETURN (
    SELECT coalesce(jsonb_agg(k.key ORDER BY p.place, k.place), '[]')
    FROM unnest(parts) WITH ORDINALITY AS p(keys, place)
    CROSS JOIN LATERAL jsonb_array_elements(p.keys) WITH ORDINALITY AS k(key, place));
END
$$;
-- end of packed_keys

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
    INSERT INTO {cell}.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until)
    VALUES (pause_participant.participant_id, session_user, left(pause_participant.reason, 500), pause_participant.until)
    ON CONFLICT DO NOTHING;
    paused := FOUND;
    EXIT WHEN paused;
    -- Where another session ends that pause, the insert does not wait for it. This does, and finds no row then.
    UPDATE {cell}.payment_paused_participants p
    SET paused_until = CASE WHEN pause_participant.until IS NULL OR p.paused_until IS NULL THEN NULL
      ELSE greatest(p.paused_until, pause_participant.until) END
    WHERE p.participant_id = pause_participant.participant_id;
    EXIT WHEN FOUND;
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
BEGIN
  PERFORM {cell}.require_reason(pause_rail.reason);
  PERFORM {cell}.require_end(pause_rail.until);
  SELECT r.paused INTO was FROM {cell}.payment_rails r WHERE r.rail_type = pause_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(pause_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, paused_by = CASE WHEN was THEN r.paused_by ELSE session_user END,
    paused_at = CASE WHEN was THEN r.paused_at ELSE clock_timestamp() END,
    pause_reason = CASE WHEN was THEN r.pause_reason ELSE left(pause_rail.reason, 500) END,
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

-- function prune
CREATE OR REPLACE FUNCTION {cell}.prune(
  what text, before timestamptz, reason text, after text, batch integer, dry_run boolean)
RETURNS TABLE (seen integer, pruned integer, kept_open integer, kept_recent integer, kept_needed integer, next_key text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET jit = off
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
#variable_conflict use_column
DECLARE
  floor_age CONSTANT interval := '7 days';
  batch_max CONSTANT integer := 10000;
  chosen    uuid[];
  gone      text[];
BEGIN
  PERFORM {cell}.require_reason($3);
  IF $1 IN ('attempts', 'archive', 'instructions', 'keys', 'operator-log') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('%s: the archive is append-only, and nothing in it is pruned', $1),
      HINT = 'Detach the partitions of a month, as docs/operations.md says. The registry and the operator log stay.';
  END IF;
  IF $1 IS NULL OR $1 NOT IN ('dead-letters', 'heartbeats') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'dead-letters and heartbeats can be pruned, and nothing else';
  END IF;
  IF $2 IS NULL OR NOT isfinite($2) OR $2 > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is missing, infinite or in the future',
      HINT = 'Give a time that is more than 7 days ago.';
  END IF;
  IF $2 > clock_timestamp() - floor_age THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is within the last 7 days',
      HINT = 'What was closed in the last 7 days stays for those who hand over, and for the next reconciliation.';
  END IF;
  IF $5 IS NULL OR $5 NOT BETWEEN 1 AND batch_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = format('a batch has 1 to %s rows', batch_max);
  END IF;
  PERFORM {cell}.require_settled_server('pruning');
  PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.prune', 0));

  IF $1 = 'heartbeats' THEN
    SELECT coalesce(array_agg(b.name), '{}'), count(*),
      count(*) FILTER (WHERE b.last_tick_at >= $2)
    INTO gone, seen, kept_recent
    FROM (
      SELECT h.name, h.last_tick_at FROM {cell}.outbox_heartbeats h
      WHERE h.name > coalesce($4, '') COLLATE "C"
      ORDER BY h.name
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := gone[seen];
    END IF;
    SELECT coalesce(array_agg(o.name), '{}') INTO gone
    FROM (
      SELECT h.name
      FROM {cell}.outbox_heartbeats h
      WHERE h.name = ANY (gone) AND h.last_tick_at < $2
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_claims f WHERE f.worker_id = h.name)
        AND (h.kind <> 'relayer' OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind = 'relayer' AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name) AND n.vouched >= h.vouched))
        AND (h.kind NOT IN ('relayer', 'reaper') OR NOT h.vouched OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind IN ('relayer', 'reaper') AND n.vouched AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name)
            AND n.server_started_at >= h.server_started_at))
      ORDER BY h.name
      FOR UPDATE OF h SKIP LOCKED) o;
    pruned := cardinality(gone);
    kept_open := 0;
    kept_needed := seen - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.outbox_heartbeats h WHERE h.name = ANY (gone) AND h.last_tick_at < $2;
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  ELSE
    SELECT coalesce(array_agg(b.outbox_id), '{}'), count(*), count(*) FILTER (WHERE NOT b.closed),
      count(*) FILTER (WHERE b.closed AND b.updated_at >= $2)
    INTO chosen, seen, kept_open, kept_recent
    FROM (
      SELECT d.outbox_id, d.status IN ('manual_replay', 'resolved') AS closed, d.updated_at
      FROM {cell}.payment_dead_letters d
      WHERE $4 IS NULL OR d.outbox_id > $4::uuid
      ORDER BY d.outbox_id
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := chosen[seen]::text;
    END IF;
    -- The lock comes before the row is judged: open_dead_letters, which opens it again, takes it too.
    SELECT coalesce(array_agg(o.outbox_id), '{}') INTO chosen
    FROM (
      SELECT d.outbox_id
      FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = ANY (chosen) AND d.status IN ('manual_replay', 'resolved') AND d.updated_at < $2
      ORDER BY d.outbox_id
      FOR UPDATE SKIP LOCKED) o;
    SELECT coalesce(array_agg(d.outbox_id), '{}') INTO chosen
    FROM {cell}.payment_dead_letters d
    LEFT JOIN LATERAL (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = d.outbox_id AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1) last ON true
    WHERE d.outbox_id = ANY (chosen)
      AND EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = d.outbox_id)
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = d.outbox_id)
      AND CASE
        WHEN last.state IS NOT NULL THEN last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED') AND last.state <> 'FAILED'
          AND d.reason <> 'UNCLAIMABLE'
          AND (EXISTS (SELECT FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = d.outbox_id)
            OR EXISTS (SELECT FROM {cell}.payment_outbox_attempts a
              WHERE a.outbox_id = d.outbox_id AND a.payload IS NOT NULL))
        ELSE {cell}.left_the_archive(d.outbox_id) END;
    pruned := cardinality(chosen);
    kept_needed := seen - kept_open - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.payment_dead_letters d WHERE d.outbox_id = ANY (chosen);
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  END IF;
  IF dry_run IS NOT TRUE AND pruned > 0 THEN
    PERFORM {cell}.log_operator_act('PRUNE', $1, NULL, $3,
      jsonb_build_object('before', $2, 'pruned', pruned, 'seen', seen,
        'removed', CASE $1 WHEN 'heartbeats' THEN to_jsonb(gone) ELSE to_jsonb(chosen) END));
  END IF;
  RETURN NEXT;
END
$$;
-- end of prune

-- function record_callback
CREATE OR REPLACE FUNCTION {cell}.record_callback(report jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF (report ->> 'state' = 'DISPATCHED' AND coalesce(report ->> 'result', 'EXECUTED') IN ('ACCEPTED', 'EXECUTED')
    OR report ->> 'state' = 'FAILED' AND report ->> 'result' = 'REFUSED') IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must report that a payment was executed or that it was refused';
  END IF;
  IF coalesce(report ->> 'rail_type', '') = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must name the rail that reports: it is evidence only of payments of that rail';
  END IF;
  RETURN {cell}.record_late_outcome((
    SELECT jsonb_object_agg(e.key, e.value)
      || jsonb_build_object('dead_reason', CASE report ->> 'state' WHEN 'FAILED' THEN 'FAILED' END,
        'worker_id', coalesce((
          SELECT h.name FROM {cell}.outbox_heartbeats h
          WHERE h.name = report ->> 'worker_id' AND h.kind = 'callback'
            AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = h.name)), session_user))
      || '{"outcome_unknown": false, "provisional": false, "counts_send": false, "delay_ms": 0, "send_count": 0, '
        '"inquiry_count": 0}'
    FROM jsonb_each(report) e
    WHERE e.key IN ('attempt_id', 'outbox_id', 'rail_type', 'state', 'result', 'rail_reference', 'rail_code',
      'error_message')));
END
$$;
-- end of record_callback

-- function record_late_outcome
CREATE OR REPLACE FUNCTION {cell}.record_late_outcome(outcome jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  tries_max CONSTANT integer := 64;
  o         {cell}.outbox_outcome := jsonb_populate_record(NULL::{cell}.outbox_outcome, outcome);
  executes  boolean := o.state = 'DISPATCHED';
  refuses   boolean := o.result IN ('REFUSED_FINAL', 'REFUSED');
  -- A refusal after which the key is not sent again (payment.CodeNewIDNeeded, CodeBusinessRefused).
  spent     boolean := o.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS')
    AND coalesce(o.error_code IN ('NEW_ID_NEEDED', 'BUSINESS_REFUSED'), false);
  weight    text := CASE WHEN o.state = 'DISPATCHED' THEN 'EXECUTED' ELSE o.result END;
  waiting   {cell}.payment_outbox_pending;
  is_waiting boolean;
  put_back  boolean;
  claim     {cell}.payment_outbox_attempts;
  is_claimed boolean;
  claim_no  integer;
  forgotten boolean; -- a restore forgot the claim that it answers
  of_send   boolean; -- it answers the claim of a send, or a forgotten claim
  last_no   integer;
  last      {cell}.payment_outbox_attempts;
  still_unknown boolean;
  knows_for interval; -- how long the rail remembers a key
  whole     boolean; -- it refuses the payment, not only one of its sends
  settled   boolean; -- no send of the payment can have been forgotten
  unseen    boolean; -- whether a send can have been forgotten is not known yet
  own       boolean; -- it answers the open claim
  answer    text;
  counts    boolean; -- it is of a send that got no answer
  doubts    boolean; -- by it, some send may have been executed
  denies    boolean := coalesce(o.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'REFUSED', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED'), false);
  torn      boolean; -- the rail had already contradicted itself
  tells_of_send boolean; -- it reports a send that a restore forgot
BEGIN
  IF o.error_code = 'RESOLVED' OR o.error_code = 'ASKED' AND o.claim_no IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('%s marks an act of an operator: it is no code of an outcome', o.error_code),
      HINT = 'Leave out error_code. An operator records evidence with resolve_payment, and has the rail asked with '
        'inquire_payment.';
  END IF;
  PERFORM {cell}.require_durable_commit();
  PERFORM FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = o.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not known to this cell', o.outbox_id);
  END IF;

  -- This holds too before any component has compared a server that was promoted or restored.
  settled := {cell}.server_is_settled();
  unseen := NOT settled AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_suspensions s
    WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
      AND s.timeline = {cell}.server_timeline());
  FOR try IN 1..tries_max LOOP
    -- The first statement excludes claims; the second reads the rows as they are now. An
    -- instruction that was put back is not pending, whatever its pending row contains: the archive
    -- is authoritative.
    SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id FOR UPDATE;
    is_waiting := FOUND;
    put_back := is_waiting AND {cell}.put_back_after(o.outbox_id) IS NOT NULL;
    is_waiting := is_waiting AND NOT put_back;
    IF EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = o.outbox_id AND a.attempt_id = o.attempt_id)
    THEN
      RETURN 'MINE';
    END IF;
    SELECT coalesce(max(a.attempt_no), 0) INTO last_no FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id;
    SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = o.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
    -- A failover lost a claim that the archive does not have. Its evidence counts; its number does
    -- not, because another claim may have it by now.
    claim_no := (
      SELECT a.attempt_no FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id AND a.attempt_no = o.claim_no AND a.claimed_at = o.claimed_at
        AND a.state IN ('DISPATCHING', 'INQUIRING'));
    forgotten := o.claim_no IS NOT NULL AND claim_no IS NULL;
    of_send := o.claim_no IS NOT NULL AND (forgotten OR EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts s
      WHERE s.outbox_id = o.outbox_id AND s.attempt_no = claim_no AND s.state = 'DISPATCHING'));
    -- The reaper found the worker of the claim dead: the worker may have sent.
    IF forgotten AND o.state = 'ZOMBIE_REQUEUE' THEN
      o.state := 'UNKNOWN';
      weight := 'UNKNOWN';
    END IF;
    is_claimed := coalesce(last.state IN ('DISPATCHING', 'INQUIRING'), false);
    -- The acceptance of a send is final only by every profile under which the instruction was sent,
    -- as far as they are known by now. It does not reopen an instruction that has ended.
    -- answer_open_claim implements the same rule.
    IF executes AND of_send AND o.counts_send AND NOT (is_claimed AND claim_no = last.attempt_no)
      AND (is_waiting OR coalesce(last.state NOT IN ('DISPATCHED', 'FAILED', 'CANCELLED'), true))
      AND {cell}.is_only_taken({cell}.acceptance_of_sends(o.outbox_id), o.result)
    THEN
      executes := false;
      o.state := 'ACCEPTED';
      o.result := 'ACCEPTED';
      weight := 'ACCEPTED';
      o.outcome_unknown := true;
      o.provisional := true;
    END IF;
    -- An inquiry also reports on a send: that the rail has the payment in progress, or, for a
    -- forgotten claim, the unknown outcome with which it was made.
    counts := o.state = 'UNKNOWN' AND coalesce(o.counts_send, false);
    doubts := coalesce(o.state = 'ACCEPTED'
      OR counts OR o.result = 'IN_PROGRESS' OR forgotten AND o.outcome_unknown AND NOT executes, false);
    claim := CASE WHEN is_claimed THEN last END;
    IF o.rail_type <> coalesce(last.rail_type, waiting.rail_type) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not of rail %s', o.outbox_id,
        o.rail_type);
    END IF;
    IF last_no = 0 AND NOT is_waiting AND {cell}.left_the_archive(o.outbox_id) THEN
      RETURN 'RETIRED';
    END IF;
    -- Either a claim of another session was answered between the two statements; or, if a single
    -- statement finds the same, the pending row is lost and the evidence still counts.
    CONTINUE WHEN NOT is_waiting AND NOT put_back AND NOT is_claimed
      AND coalesce(last.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED'), true) AND NOT EXISTS (
        SELECT FROM (
          SELECT a.state FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = o.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) l
        WHERE l.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED')
          AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id));

    BEGIN
      -- A send that a restore has forgotten can't be counted: while there may be one, a refusal
      -- ends nothing. Nor does a refusal that is, or may be, of a send before a replay.
      IF (refuses OR spent) AND EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = o.outbox_id AND a.state = 'REPLAYED' AND a.attempt_no > coalesce(claim_no, 0))
      THEN
        settled := false;
        spent := false;
      END IF;
      own := is_claimed AND claim_no IS NOT DISTINCT FROM claim.attempt_no;
      -- The knowledge of restores with which the worker called may be outdated. A refusal of a send
      -- that counts as lost is not evaluated again later either.
      IF unseen AND (own AND o.state = 'FAILED' OR (refuses OR spent) AND (is_waiting OR last.state = 'PARKED')
        AND o.claim_no IS NOT NULL AND NOT forgotten) THEN
        RAISE EXCEPTION USING ERRCODE = 'RH011',
          MESSAGE = format('the outcome that may end outbox_id %s unpaid is not recorded yet: no component has compared this start of the server with what it remembers, and a send of the payment may be forgotten', o.outbox_id),
          HINT = 'Call again. A relayer compares as soon as it reaches the server.';
      END IF;
      whole := o.result = 'REFUSED' AND (settled OR own) AND NOT (forgotten AND doubts)
        AND {cell}.refusal_covers_all_sends(o.outbox_id, o.claim_no IS NULL);
      IF own OR is_claimed AND (o.claim_no IS NULL AND (executes OR whole OR NOT refuses)) THEN
        answer := {cell}.answer_open_claim(o, claim, last_no, whole);
        PERFORM {cell}.close_answered_letters(ARRAY[o.outbox_id]);
        RETURN answer;
      END IF;

      knows_for := CASE WHEN executes AND of_send THEN {cell}.rail_knows_keys_for(o.outbox_id) END;
      IF EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = o.outbox_id
          AND CASE
            -- An operator's evidence is not a statement of the rail.
            WHEN executes THEN (a.state = 'DISPATCHED' AND a.error_code IS DISTINCT FROM 'RESOLVED'
              OR a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED')
              AND coalesce(a.rail_reference = o.rail_reference, o.rail_reference IS NULL)
              -- Two sends may both have been executed if the rail no longer remembered the key. An
              -- execution that no send itself reported hides that of a send, if there are other
              -- sends further apart than that.
              AND (NOT of_send OR (
                SELECT coalesce(bool_or(e.claimed_at = o.claimed_at
                  OR greatest(e.claimed_at - o.claimed_at, o.claimed_at - e.claimed_at) < knows_for),
                  knows_for > (
                    SELECT greatest(max(t.claimed_at), o.claimed_at) - least(min(t.claimed_at), o.claimed_at)
                    FROM {cell}.sends_of(o.outbox_id) s
                    JOIN {cell}.payment_outbox_attempts t ON t.outbox_id = o.outbox_id AND t.attempt_no = s.attempt_no
                    WHERE NOT s.denied))
                FROM {cell}.executions_of(o.outbox_id) e
                WHERE e.attempt_no = a.attempt_no AND NOT e.by_another))
              -- Evidence that was judged before a replay, or by an operator, counts again.
              AND a.attempt_no > coalesce((
                SELECT max(r.attempt_no) FROM {cell}.payment_outbox_attempts r
                WHERE r.outbox_id = o.outbox_id AND r.state = 'REPLAYED'), 0)
              AND a.attempt_no > {cell}.judged_to(o.outbox_id, false)
            -- The time distinguishes a forgotten claim from others. That the rail has already seen
            -- the key is new evidence.
            ELSE a.state = 'LATE_OUTCOME' AND a.result = weight
              AND a.answers_attempt_no IS NOT DISTINCT FROM claim_no
              AND (claim_no IS NOT NULL OR a.claimed_at IS NOT DISTINCT FROM o.claimed_at)
              AND (a.error_code = 'SEEN_BEFORE' OR o.error_code IS DISTINCT FROM 'SEEN_BEFORE')
              -- Evidence from before the end counts again against it.
              AND (NOT refuses OR last.state IS DISTINCT FROM 'DISPATCHED' OR a.attempt_no > last.attempt_no)
              -- A report that follows a send may be of that send.
              AND (NOT refuses OR o.claim_no IS NOT NULL OR NOT EXISTS (
                SELECT FROM {cell}.sends_of(o.outbox_id) s
                WHERE NOT s.forgotten AND NOT s.denied AND s.attempt_no > a.attempt_no))
              AND a.rail_reference IS NOT DISTINCT FROM o.rail_reference END)
      THEN
        RETURN 'REPEATED';
      END IF;
      IF refuses AND last.state = 'FAILED'
        AND last.result IN ('REFUSED_FINAL', 'REFUSED') AND last.error_code IS DISTINCT FROM 'RESOLVED'
        AND NOT is_waiting AND NOT doubts AND NOT forgotten
        -- A new reference is stored: the rail may still report an execution under it.
        AND (o.rail_reference IS NULL OR EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = o.outbox_id AND a.result IN ('REFUSED_FINAL', 'REFUSED') AND a.rail_reference = o.rail_reference
            AND a.error_code IS DISTINCT FROM 'RESOLVED'))
      THEN
        IF o.claim_no IS NOT NULL THEN
          RETURN 'REPEATED';
        END IF;
        -- It is no news, but its event may be delivered again after a replay, and would then count
        -- against the execution of the send that followed. By this row it is MINE, and other events
        -- that report the same now are REPEATED.
        PERFORM {cell}.append_outbox_row(o, o.attempt_id, last_no + 1, 'LATE_OUTCOME', NULL,
          coalesce(last.outcome_unknown, false), weight, o.rail_reference);
        RETURN 'LATE';
      END IF;

      still_unknown := CASE
        WHEN executes OR whole THEN false
        WHEN doubts THEN true
        WHEN (refuses OR spent) AND {cell}.send_may_be_forgotten(o.outbox_id) THEN true
        -- LATE_OUTCOME rows may hold a doubt that the last other row does not.
        ELSE (NOT is_waiting OR waiting.outcome_unknown)
          AND {cell}.outbox_unsettled_send(o.outbox_id, claim_no) END;
      torn := denies AND {cell}.refused_and_executed(o.outbox_id, 0);
      PERFORM {cell}.append_outbox_row(o, o.attempt_id, last_no + 1, 'LATE_OUTCOME', claim_no,
        coalesce(last.outcome_unknown, false) OR doubts,
        weight, o.rail_reference);

      IF is_claimed THEN
        RETURN 'LATE';
      ELSIF last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED') AND NOT is_waiting THEN
        -- These are conflicts, which an operator has to decide: two executions under two
        -- references, or of two sends; an execution of a payment that had failed; a refusal and an
        -- execution by the rail that exclude each other; a refusal of the payment, or of the last
        -- send that may have been executed; an answer that the last send was refused or not made,
        -- if the execution rests on an operator's evidence alone; a provisional acceptance, or "in
        -- progress", of a payment that was ended otherwise than by the rail's answer for the whole
        -- payment (an operator's evidence is not one); a send without an answer that became known
        -- after the end. A final refusal accounts for the known sends. It does not account for a
        -- forgotten send: the acceptance of another send, made while acceptances were provisional,
        -- may be what the rail had answered to the forgotten one.
        IF executes AND (last.state <> 'DISPATCHED' OR EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts a
            WHERE a.outbox_id = o.outbox_id AND a.attempt_id <> o.attempt_id AND a.rail_reference <> o.rail_reference
              AND (a.state = 'DISPATCHED' OR a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED')))
          OR refuses AND last.state = 'DISPATCHED'
            AND (o.result = 'REFUSED' OR claim_no = last.answers_attempt_no
              AND {cell}.refusal_covers_all_sends(o.outbox_id, false)
              OR NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id) s WHERE NOT s.settled))
          OR denies AND last.error_code IS NOT DISTINCT FROM 'RESOLVED'
            AND NOT {cell}.send_may_be_forgotten(o.outbox_id)
            AND last.state = 'DISPATCHED' AND last.answers_attempt_no IS NULL
            AND NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id))
            -- No conflict if the rail has meanwhile confirmed the evidence.
            AND NOT EXISTS (
              SELECT FROM {cell}.payment_outbox_attempts a
              WHERE a.outbox_id = o.outbox_id AND a.attempt_no > last.attempt_no AND a.result = 'EXECUTED')
          OR (executes OR refuses) AND {cell}.refused_and_executed(o.outbox_id, last_no)
          OR executes AND {cell}.executed_twice(o.outbox_id, last_no, false)
          OR denies AND last.state = 'DISPATCHED' AND NOT torn AND {cell}.refused_and_executed(o.outbox_id, 0)
          OR doubts AND NOT counts AND last.state IN ('FAILED', 'CANCELLED')
            AND (claim_no IS NULL
              OR last.result IS DISTINCT FROM 'REFUSED' OR last.error_code IS NOT DISTINCT FROM 'RESOLVED')
          OR counts AND last.state IN ('FAILED', 'CANCELLED')
            AND (claim_no IS NULL OR last.result IS NULL OR last.result NOT IN ('REFUSED_FINAL', 'REFUSED'))
          OR doubts AND forgotten AND last.state = 'DISPATCHED' AND {cell}.rests_on_acceptance(o.outbox_id)
        THEN
          PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'],
            ARRAY[coalesce(o.error_code, o.rail_code)]);
          RETURN 'CONFLICT';
        END IF;
        RETURN 'LATE';
      ELSIF executes OR (refuses OR spent) AND settled AND NOT still_unknown THEN
        PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), last_no + 2,
          CASE WHEN executes THEN 'DISPATCHED' ELSE 'FAILED' END, claim_no, false, weight, o.rail_reference);
        DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id;
        -- The rail contradicts itself: the payment is recorded as executed, and an operator
        -- decides.
        IF executes AND {cell}.refused_and_executed(o.outbox_id, last_no) THEN
          PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'],
            ARRAY[coalesce(o.error_code, o.rail_code)]);
          RETURN 'CONFLICT';
        ELSIF executes THEN
          UPDATE {cell}.payment_dead_letters d
          SET status = 'resolved', note = 'the rail''s own evidence came late', actor = session_user,
            updated_at = clock_timestamp()
          WHERE d.outbox_id = o.outbox_id AND d.reason <> 'TAMPERED' AND d.status NOT IN ('manual_replay', 'resolved');
        ELSE
          PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id],
            ARRAY['FAILED'], ARRAY[coalesce(o.error_code, o.rail_code)]);
        END IF;
        RETURN 'SETTLED';
      ELSIF is_waiting AND spent AND waiting.next_action = 'SEND' THEN
        PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), last_no + 2, 'PARKED', NULL, true, NULL, NULL);
        DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id;
        PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['OUTCOME_UNKNOWN'],
          ARRAY[coalesce(o.error_code, o.rail_code)]);
        RETURN 'SETTLED';
      ELSIF is_waiting THEN
        tells_of_send := coalesce(forgotten AND (o.counts_send OR doubts AND o.result IN ('REFUSED', 'IN_PROGRESS', 'NOT_FOUND', 'UNAVAILABLE')), false);
        -- A row that is appended for a pending instruction raises its attempt_count, so that the
        -- number of the next claim is right. A late provisional acceptance also stops re-sends, and
        -- a send without an answer has an unknown outcome, however late it becomes known.
        UPDATE {cell}.payment_outbox_pending p
        SET attempt_count = greatest(p.attempt_count, last_no + 1),
          provisional = p.provisional OR o.state = 'ACCEPTED',
          outcome_unknown = p.outcome_unknown OR doubts,
          -- The send of a claim that a failover forgot is an additional one. Deadlines and the age
          -- of a "no such payment" count from the latest send, and the key window from the first. A
          -- send that a forgotten inquiry asked about was made before that inquiry.
          first_sent_at = CASE WHEN tells_of_send THEN least(p.first_sent_at, o.claimed_at) ELSE p.first_sent_at END,
          last_sent_at = CASE WHEN tells_of_send THEN greatest(p.last_sent_at, o.claimed_at) ELSE p.last_sent_at END,
          render_version = CASE WHEN forgotten AND o.counts_send THEN coalesce(p.render_version, o.render_version)
            ELSE p.render_version END,
          send_count = p.send_count + CASE WHEN tells_of_send THEN 1 ELSE 0 END,
          next_action = CASE WHEN o.state = 'ACCEPTED' OR doubts AND NOT counts THEN 'INQUIRE' ELSE p.next_action END
        WHERE p.outbox_id = o.outbox_id;
      END IF;
      RETURN 'LATE';
    EXCEPTION WHEN unique_violation THEN
      -- Another session appended a row concurrently: start again.
      o := jsonb_populate_record(NULL::{cell}.outbox_outcome, outcome);
      executes := o.state = 'DISPATCHED';
      weight := CASE WHEN executes THEN 'EXECUTED' ELSE o.result END;
    END;
  END LOOP;
  -- A partition may be detached: the rows in it must not be written a second time.
  IF last_no = 0 AND NOT is_waiting THEN
    RAISE EXCEPTION USING ERRCODE = 'RH011',
      MESSAGE = format('neither pending nor the archive has a row of outbox_id %s, and its month was not retired: nothing is stored', o.outbox_id),
      HINT = 'Find out what is missing (railhead prove run nothing-lost), bring it back, and call again.';
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RH011',
    MESSAGE = format('outbox_id %s changed under each of %s tries', o.outbox_id, tries_max), HINT = 'Call again.';
END
$$;
-- end of record_late_outcome

-- function redeliver_events
CREATE OR REPLACE FUNCTION {cell}.redeliver_events(endpoint_id text, since timestamptz, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
#variable_conflict use_column
DECLARE
  waited integer;
  asked  {cell}.payment_event_endpoints;
  first  xid8;
BEGIN
  PERFORM {cell}.require_reason($3);
  -- The deliveries that a worker has in progress belong to the earlier epoch, and are not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1, paused_at = NULL, pause_reason = NULL
    WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  IF $2 IS NOT NULL THEN
    SELECT e.* INTO asked FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 COLLATE "C";
    first := {cell}.outcome_feed_since($2);
    -- The cursor never moves forward: earlier events that are not delivered yet would be skipped.
    UPDATE {cell}.payment_event_endpoints e
    SET place_system = s.system_identifier::text, place_xact = first, place_outbox_id = NULL, place_attempt_no = NULL,
      place_attempt_id = NULL
    FROM pg_control_system() s
    CROSS JOIN {cell}.outcome_place(asked.place_xact, asked.place_outbox_id, asked.place_attempt_no,
      asked.place_attempt_id, asked.place_system) p
    WHERE e.endpoint_id = $1 COLLATE "C" AND first <= p.to_xact;
  END IF;
  UPDATE {cell}.payment_event_retries r SET next_at = clock_timestamp(), tries = 0 WHERE r.endpoint_id = $1 COLLATE "C";
  GET DIAGNOSTICS waited = ROW_COUNT;
  PERFORM {cell}.log_operator_act('REDELIVER_EVENTS', $1, NULL, $3, jsonb_strip_nulls(jsonb_build_object('since', $2)));
  RETURN waited;
END
$$;
-- end of redeliver_events

-- function require_durable_commit
CREATE OR REPLACE FUNCTION {cell}.require_durable_commit() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END
$$;
-- end of require_durable_commit

-- function require_durable_map
CREATE OR REPLACE FUNCTION {cell}.require_durable_map() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION USING ERRCODE = '25001', MESSAGE = 'the map of cells is changed in READ COMMITTED only',
      HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
  END IF;
  PERFORM {cell}.require_durable_commit();
END
$$;
-- end of require_durable_map

-- function reschedule_payment
CREATE OR REPLACE FUNCTION {cell}.reschedule_payment(
  outbox_id uuid, due_at timestamptz, reason text, OUT was_due_at timestamptz, OUT is_due_at timestamptz) RETURNS record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  profile jsonb;
  moment  timestamptz := clock_timestamp();
BEGIN
  PERFORM {cell}.require_reason(reschedule_payment.reason);
  IF reschedule_payment.due_at > moment + interval '366 days' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a due time is at most 366 days ahead',
      HINT = 'To delay instructions for longer, pause their participant or rail.';
  END IF;
  PERFORM {cell}.lock_payment(reschedule_payment.outbox_id);
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = reschedule_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a pending instruction has a due time',
        coalesce({cell}.payment_outbox_state(reschedule_payment.outbox_id), 'gone from the archive')),
      HINT = 'A claimed instruction may be on its way to the rail. Use payment inquire for a parked one, and dead-letter replay for '
        'one that has failed.';
  END IF;
  IF {cell}.put_back_after(reschedule_payment.outbox_id) IS NOT NULL OR waiting.next_attempt_at = 'infinity' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction could not be claimed and is quarantined: a due time does not change that',
      HINT = 'Correct the cause that its dead letter names, then replay it.';
  END IF;

  moment := greatest(reschedule_payment.due_at, moment);
  IF waiting.next_action = 'INQUIRE' THEN
    SELECT p.profile INTO profile
    FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = waiting.rail_type;
    IF coalesce((profile #>> '{inquiry,max}')::integer, 0) = 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('rail %s can''t be asked: the instruction waits for the rail''s callback', waiting.rail_type),
        HINT = 'It is parked at its callback_deadline. An answer of the rail before then ends it.';
    END IF;
    moment := greatest(moment, waiting.last_sent_at + coalesce((profile #>> '{inquiry,not_before}')::interval,
      interval '0'));
  END IF;
  IF waiting.next_action = 'SEND' AND moment >= waiting.expires_at THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it expires at %s and would not be sent', waiting.expires_at),
      HINT = CASE WHEN waiting.expires_at > clock_timestamp() THEN 'Choose an earlier time.'
        ELSE 'The reaper ends it.' END;
  END IF;

  UPDATE {cell}.payment_outbox_pending p SET next_attempt_at = moment WHERE p.outbox_id = reschedule_payment.outbox_id;
  PERFORM {cell}.log_operator_act(CASE WHEN reschedule_payment.due_at IS NULL THEN 'SEND_NOW' ELSE 'RESCHEDULE' END,
    {cell}.instruction_of(waiting.outbox_id), waiting.outbox_id, reschedule_payment.reason,
    jsonb_build_object('from', waiting.next_attempt_at, 'to', moment, 'rows', waiting.attempt_count));
  PERFORM {cell}.note_order_change(waiting.outbox_id, waiting.rail_type, true);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  was_due_at := waiting.next_attempt_at;
  is_due_at := moment;
END
$$;
-- end of reschedule_payment

-- function resolve_payment
CREATE OR REPLACE FUNCTION {cell}.resolve_payment(
  outbox_id uuid, executed boolean, rail_reference text, evidence_date date, document text, reason text,
  rail_silent boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  letter  {cell}.payment_dead_letters;
  letter_open boolean;
  pending {cell}.payment_outbox_pending;
  put_back text;
  aside   boolean := false;
  waits   boolean := false;
  out_asked boolean := false; -- it is pending for an inquiry that an operator asked for
  silent  boolean := false;
  against integer; -- the row in which the rail reports otherwise: an execution, or another reference
  lost    boolean; -- it should be pending, and has no pending row
  last    {cell}.payment_outbox_attempts;
  o       {cell}.outbox_outcome;
  verdict text;
  number  integer;
  before  integer;
  reference text COLLATE "C" := btrim(resolve_payment.rail_reference);
  on_rail text COLLATE "C";
  since   timestamptz; -- the time than which the evidence can't be older
  forgot  timestamptz; -- the time until which forgotten sends may have begun
  other   uuid; -- the payment that already has the reference
BEGIN
  PERFORM {cell}.require_reason(resolve_payment.reason);
  IF resolve_payment.executed IS NULL OR coalesce(btrim(resolve_payment.document), '') = ''
    OR resolve_payment.evidence_date IS NULL OR resolve_payment.evidence_date > current_date + 1
    OR resolve_payment.executed AND coalesce(btrim(resolve_payment.rail_reference), '') = ''
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'evidence is incomplete: it needs executed or not, its date, the document, and the rail''s reference '
        'if executed',
      HINT = 'The document names the evidence: a statement, a ticket, a letter.';
  END IF;
  IF octet_length(resolve_payment.rail_reference) > 256 OR octet_length(resolve_payment.document) > 500 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a rail reference has at most 256 bytes, a document at most 500',
      HINT = 'Name the document, do not quote it.';
  END IF;
  PERFORM {cell}.lock_payment(resolve_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  -- Both are read by one snapshot: a claim deletes the pending row in the statement that appends
  -- its row.
  lost := EXISTS (
    SELECT FROM (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) l
    WHERE l.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED')
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id));
  verdict := CASE
    WHEN resolve_payment.executed THEN 'DISPATCHED'
    WHEN last.state = 'CANCELLED' THEN 'CANCELLED'
    ELSE 'FAILED' END;
  SELECT p.* INTO pending FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  IF FOUND THEN
    put_back := {cell}.put_back_after(resolve_payment.outbox_id);
    -- outcome_unknown of an older copy of the row is not reliable.
    aside := letter.reason = 'UNCLAIMABLE' AND pending.next_attempt_at = 'infinity'
      AND CASE WHEN put_back IS NULL THEN pending.outcome_unknown
        ELSE put_back IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED', 'LATE_OUTCOME') END;
    out_asked := put_back IS NULL AND {cell}.operator_asked(resolve_payment.outbox_id, last.attempt_no + 1);
    waits := resolve_payment.executed AND coalesce(last.state NOT IN ('DISPATCHING', 'INQUIRING', 'DISPATCHED'), true);
  END IF;
  letter_open := coalesce(letter.status NOT IN ('manual_replay', 'resolved'), false);
  IF NOT coalesce(
    waits OR lost
    OR resolve_payment.executed AND last.state IN ('FAILED', 'CANCELLED')
    OR letter_open AND (aside OR out_asked OR last.state = 'PARKED')
    OR letter_open AND letter.reason = 'CONFLICT' AND last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED'), false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: it can''t be resolved like this now',
        coalesce({cell}.payment_outbox_state(resolve_payment.outbox_id), 'gone from the archive')),
      HINT = 'Resolve a dead letter with an unknown outcome or a conflict, or, with proof of execution, an '
        'instruction that is pending, FAILED or CANCELLED. If it was not executed, replay or close FAILED and '
        'EXPIRED, and replay or cancel UNCLAIMABLE of which nothing was sent.';
  END IF;

  SELECT a.attempt_no INTO before FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state = 'DISPATCHED';
  IF resolve_payment.executed AND before < last.attempt_no THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('row %s is DISPATCHED and row %s revoked it: an instruction has at most one DISPATCHED row',
        before, last.attempt_no),
      HINT = 'Escalate its dead letter, and neither close nor replay it, so that it is not paid again. Correct the '
        'books outside Railhead.';
  END IF;

  since := {cell}.uuidv7_time(resolve_payment.outbox_id);
  IF NOT resolve_payment.executed THEN
    -- A suspension that was restored from a backup is of another start, and does not concern this
    -- one.
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
        AND s.timeline = {cell}.server_timeline())
    THEN
      PERFORM {cell}.require_settled_server('evidence that a payment was not executed');
    END IF;
    forgot := {cell}.may_be_forgotten_until(resolve_payment.outbox_id);
    IF forgot > clock_timestamp() THEN -- a clock was ahead: no evidence has a future date
      forgot := clock_timestamp();
    END IF;
    since := (SELECT greatest(since, forgot, max(s.claimed_at)) FROM {cell}.sends_of(resolve_payment.outbox_id) s);
  END IF;
  IF resolve_payment.evidence_date < ((since - interval '12 hours') AT TIME ZONE 'UTC')::date THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the evidence is dated %s, and %s %s: it can''t cover that', resolve_payment.evidence_date,
        CASE WHEN resolve_payment.executed THEN 'the payment was enqueued at' WHEN since = forgot
          THEN 'a send that the database has forgotten may have begun as late as'
          ELSE 'the last send began at' END, date_trunc('second', since)),
      HINT = 'Give the date of the statement or the answer, not of the order. Find out from the rail what has become '
        'of the payment since.';
  END IF;
  IF resolve_payment.executed THEN
    on_rail := coalesce(last.rail_type, pending.rail_type,
      (SELECT k.rail_type FROM {cell}.payment_outbox_attempts k WHERE k.outbox_id = resolve_payment.outbox_id LIMIT 1));
    -- If two operators use one statement, the second sees the row of the first.
    PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.reference ' || on_rail || ' ' || reference, 0));
    SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
    WHERE a.rail_reference = reference AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
      AND (a.state = 'DISPATCHED' OR a.result = 'EXECUTED')
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts own
        WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference)
    LIMIT 1;
    IF other IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the rail''s reference is that of %s, which was executed: it is not evidence of %s', other,
          resolve_payment.outbox_id),
        HINT = 'Check the statement. If the rail gives one reference to several payments, add what distinguishes them '
          'there: REFERENCE/LINE.';
    END IF;
  END IF;

  IF NOT resolve_payment.executed THEN
    silent := {cell}.require_rails_word(resolve_payment.outbox_id, resolve_payment.rail_silent);
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED');
  END IF;

  IF resolve_payment.executed THEN
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND a.rail_reference <> reference AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference));
  END IF;
  IF last.state::text IS DISTINCT FROM verdict THEN
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO number FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id;
    o.outbox_id := resolve_payment.outbox_id;
    o.error_code := 'RESOLVED';
    o.error_message := format('%s%s (%s, %s)', CASE
      WHEN against IS NOT NULL THEN format('against the rail''s word (row %s): ', against)
      WHEN silent THEN 'without the rail''s word: ' END,
      resolve_payment.reason, resolve_payment.document, resolve_payment.evidence_date);
    -- The column holds 2000 bytes, and a character has at most 4. The log has the full text.
    IF octet_length(o.error_message) > 2000 THEN
      o.error_message := left(o.error_message, 500);
    END IF;
    PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), number, verdict, NULL, false,
      CASE WHEN resolve_payment.executed THEN 'EXECUTED' ELSE 'REFUSED' END, reference);
  END IF;
  IF aside OR waits OR out_asked OR put_back IS NOT NULL THEN
    DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id;
  END IF;
  IF verdict <> 'FAILED' THEN
    PERFORM {cell}.close_letter(resolve_payment.outbox_id, 'resolved', resolve_payment.reason);
  ELSE
    PERFORM {cell}.open_dead_letters(ARRAY[resolve_payment.outbox_id], ARRAY['FAILED'], ARRAY['RESOLVED']);
    UPDATE {cell}.payment_dead_letters d
    SET reason = 'FAILED', error_code = 'RESOLVED', status = 'acknowledged', note = resolve_payment.reason,
      actor = session_user, updated_at = clock_timestamp()
    WHERE d.outbox_id = resolve_payment.outbox_id;
  END IF;
  PERFORM {cell}.log_operator_act('RESOLVE', {cell}.instruction_of(resolve_payment.outbox_id),
    resolve_payment.outbox_id, resolve_payment.reason,
    jsonb_build_object('executed', resolve_payment.executed, 'rail_reference', reference,
      'evidence_date', resolve_payment.evidence_date, 'document', resolve_payment.document, 'rail_silent', silent,
        'against_row', against,
      'letter', letter.reason, 'was', last.state));
  RETURN verdict;
END
$$;
-- end of resolve_payment

-- function reveal_payload
CREATE OR REPLACE FUNCTION {cell}.reveal_payload(outbox_id uuid, reason text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  act CONSTANT uuid := {cell}.uuidv7();
BEGIN
  PERFORM {cell}.require_reason(reveal_payload.reason);
  PERFORM {cell}.require_durable_commit();
  -- One that was never enqueued is not in the registry, and has a payload as well.
  IF NOT EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = reveal_payload.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not known to this cell',
      reveal_payload.outbox_id);
  END IF;
  IF (SELECT c.payload IS NULL FROM {cell}.payload_of(reveal_payload.outbox_id) c) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH016',
      MESSAGE = format('no row has the payload of outbox_id %s', reveal_payload.outbox_id),
      HINT = 'If the partition of its month of payment_outbox_instructions was detached, attach it again.';
  END IF;
  INSERT INTO {cell}.payment_operator_log (act_id, act, subject, outbox_id, reason)
  VALUES (act, 'REVEAL_PAYLOAD',
    coalesce({cell}.instruction_of(reveal_payload.outbox_id), reveal_payload.outbox_id::text),
    reveal_payload.outbox_id, reveal_payload.reason);
  RETURN act;
END
$$;
-- end of reveal_payload

-- function suspend_outbox
CREATE OR REPLACE FUNCTION {cell}.suspend_outbox(worker_id text, cause text, detail text, looked_at timestamptz)
  RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  id   uuid;
  same {cell}.payment_outbox_suspensions; -- the open one, if this call changes nothing in it
BEGIN
  IF cause IS NULL OR cause NOT IN ('NEW_SERVER', 'NEW_TIMELINE', 'LOG_WENT_BACK', 'ROWS_MISSING', 'NO_MEMORY') THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%L is not a cause of a suspension', cause);
  END IF;
  PERFORM {cell}.require_durable_commit();
  -- Only acceptances of this start and this timeline count: others may have the times of another
  -- server's clock.
  IF EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at > looked_at AND s.accepted_at <= clock_timestamp()
        AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline())
    OR cause = 'NEW_TIMELINE' AND EXISTS (
      SELECT FROM {cell}.payment_accepted_timelines t
      WHERE t.accepted_at > looked_at AND t.accepted_at <= clock_timestamp() AND t.timeline = {cell}.server_timeline()
        AND t.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c))
  THEN
    RETURN NULL;
  END IF;
  SELECT s.* INTO same FROM {cell}.payment_outbox_suspensions s
  WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline()
    AND s.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
    AND (s.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND looked_at <= s.opened_at
      OR suspend_outbox.cause NOT IN ('LOG_WENT_BACK', 'ROWS_MISSING'));
  IF FOUND THEN
    IF same.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND NOT {cell}.map_is_confirmed() THEN
      PERFORM FROM {cell}.payment_outbox_rules r WHERE r.confirmed_start IS NOT NULL FOR UPDATE SKIP LOCKED;
      IF FOUND THEN
        -- A new statement: it sees a comparison whose transaction has released the row just now.
        UPDATE {cell}.payment_outbox_rules SET confirmed_start = NULL WHERE NOT {cell}.map_is_confirmed();
      END IF;
    END IF;
    RETURN same.suspension_id;
  END IF;
  INSERT INTO {cell}.payment_outbox_suspensions AS s
    (worker_id, cause, detail, system_identifier, timeline, server_started_at, known_until)
  SELECT suspend_outbox.worker_id, suspend_outbox.cause, left(suspend_outbox.detail, 500), c.system_identifier::text,
    {cell}.server_timeline(), pg_postmaster_start_time(),
    least(clock_timestamp(), coalesce((
      SELECT max(CASE WHEN h.vouched AND h.server_started_at <> pg_postmaster_start_time() THEN h.last_tick_at
        ELSE h.tick_before_start END)
      FROM {cell}.outbox_heartbeats h
      WHERE h.kind IN ('relayer', 'reaper')), '-infinity'))
  FROM pg_control_system() c
  ON CONFLICT ((accepted_at IS NULL)) WHERE accepted_at IS NULL DO UPDATE SET
    worker_id = excluded.worker_id, cause = excluded.cause, detail = excluded.detail,
    system_identifier = excluded.system_identifier, timeline = excluded.timeline,
    server_started_at = excluded.server_started_at, known_until = least(s.known_until, excluded.known_until),
    opened_at = excluded.opened_at
  WHERE (s.system_identifier, s.timeline, s.server_started_at)
    IS DISTINCT FROM (excluded.system_identifier, excluded.timeline, excluded.server_started_at)
    OR excluded.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND (s.cause NOT IN ('LOG_WENT_BACK', 'ROWS_MISSING') OR looked_at > s.opened_at)
  RETURNING s.suspension_id INTO id;
  RETURN coalesce(id, (SELECT s.suspension_id FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL));
END
$$;
-- end of suspend_outbox

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 39, serves 13'
$$;
-- end of schema_version
