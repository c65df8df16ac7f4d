-- Migration 37, what a pause holds. Binaries that need migration 13 or a newer one work on a cell that has it.

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
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('ACCEPT_TIMELINE', format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline),
    accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

-- function freeze_bucket
CREATE OR REPLACE FUNCTION {cell}.freeze_bucket(bucket integer, cell text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  taker {cell}.payment_cells;
  held  {cell}.payment_buckets;
  known text;
  stop  record;
BEGIN
  PERFORM {cell}.require_reason(freeze_bucket.reason);
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_settled_server('moving buckets');
  PERFORM {cell}.require_confirmed_map('moving buckets');
  IF {cell}.forgotten_calls_until() > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('until %s callers may repeat calls that this database has forgotten: another cell would send their payments as new ones',
        to_char({cell}.forgotten_calls_until(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Move the buckets after that time (repeated_within of payment_outbox_settings after the acceptance).';
  END IF;
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = freeze_bucket.cell COLLATE "C" AND NOT c.here;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(freeze_bucket.cell, 64)), 'NULL')),
      HINT = 'Add it first: railhead cell add.';
  END IF;
  IF taker.rail_key_namespace IS DISTINCT FROM (SELECT s.rail_key_namespace FROM {cell}.payment_outbox_settings s) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s derives other rail keys than this one: a rail would not recognise a payment that both send',
        taker.name),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
  END IF;
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = freeze_bucket.bucket FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'buckets are numbers of 0 to 1023';
  END IF;
  IF NOT held.mine THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('this cell does not take bucket %s', held.bucket),
      HINT = 'Only the cell that takes a bucket can move it.';
  END IF;
  IF {cell}.bucket_is_leaving(held.version, held.leaving) THEN
    SELECT m.cell INTO STRICT known FROM {cell}.payment_bucket_moves m
    WHERE m.bucket = held.bucket AND m.version = held.leaving;
    IF known = taker.name THEN
      RETURN held.leaving;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('bucket %s is being moved to cell %s', held.bucket, known),
      HINT = 'Complete that move, or end it: railhead cell move --cancel.';
  END IF;
  SELECT w.participant_id, w.why INTO stop
  FROM (
    SELECT h.participant_id, 'it is paused here, and would not be there: resume it first' AS why
    FROM {cell}.payment_paused_participants h
    UNION ALL
    SELECT g.name, 'its gate is closed here, and would not be there: open it first'
    FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') w
  WHERE {cell}.cell_bucket(w.participant_id) = held.bucket
  ORDER BY w.participant_id
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('participant %s of bucket %s can''t be moved now: %s', quote_literal(stop.participant_id),
        held.bucket, stop.why),
      HINT = 'Nothing was changed.';
  END IF;
  INSERT INTO {cell}.payment_bucket_moves (bucket, version, cell, reason)
  VALUES (held.bucket, held.version + 1, taker.name, freeze_bucket.reason);
  UPDATE {cell}.payment_buckets b SET leaving = b.version + 1 WHERE b.bucket = held.bucket;
  PERFORM {cell}.log_operator_act('FREEZE_BUCKET', taker.name, NULL, freeze_bucket.reason,
    jsonb_build_object('bucket', held.bucket, 'version', held.version + 1));
  RETURN held.version + 1;
END
$$;
-- end of freeze_bucket

-- function give_buckets
CREATE OR REPLACE FUNCTION {cell}.give_buckets(buckets integer[], cell text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  given CONSTANT integer[] := ARRAY(SELECT DISTINCT g FROM unnest(give_buckets.buckets) AS g ORDER BY g);
  here  text COLLATE "C";
  taker {cell}.payment_cells;
  held  record;
BEGIN
  PERFORM {cell}.require_reason(give_buckets.reason);
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_settled_server('giving buckets away');
  PERFORM {cell}.require_confirmed_map('giving buckets away');
  IF {cell}.forgotten_calls_until() > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('until %s callers may repeat calls that this database has forgotten: their participants are not known here, and another cell would send their payments as new ones',
        to_char({cell}.forgotten_calls_until(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Give the buckets away after that time (repeated_within of payment_outbox_settings after the acceptance).';
  END IF;
  IF given = '{}' OR array_position(given, NULL) IS NOT NULL OR given[1] < 0 OR given[cardinality(given)] > 1023 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'buckets are numbers of 0 to 1023';
  END IF;
  SELECT c.name INTO here FROM {cell}.payment_cells c WHERE c.here;
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = give_buckets.cell COLLATE "C" AND NOT c.here;
  IF NOT FOUND OR here IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(give_buckets.cell, 64)), 'NULL')),
      HINT = 'Add it first: railhead cell add.';
  END IF;
  IF taker.rail_key_namespace IS DISTINCT FROM (SELECT s.rail_key_namespace FROM {cell}.payment_outbox_settings s) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s derives other rail keys than this one: a rail would not recognise a payment that both send',
        taker.name),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
  END IF;
  PERFORM FROM {cell}.payment_buckets b WHERE b.bucket = ANY (given) ORDER BY b.bucket FOR UPDATE;
  SELECT count(*) AS n, min(b.bucket) AS first INTO held
  FROM {cell}.payment_buckets b
  WHERE b.bucket = ANY (given) AND NOT b.mine;
  IF held.n > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell does not take %s of the buckets, such as bucket %s', held.n, held.first),
      HINT = 'Only the cell that takes a bucket can give it.';
  END IF;
  SELECT m.bucket, m.cell INTO held
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_bucket_moves m ON m.bucket = b.bucket AND m.version = b.leaving
  WHERE b.bucket = ANY (given) AND {cell}.bucket_is_leaving(b.version, b.leaving)
    AND (m.digest IS NULL OR m.cell <> taker.name)
  ORDER BY m.bucket
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('bucket %s is being moved to cell %s, and is not given before', held.bucket, held.cell),
      HINT = 'Complete the move, or end it: railhead cell move --cancel.';
  END IF;
  -- A gate may be closed for a participant that never enqueued here: it is of a cell that was lost (require_gate).
  SELECT w.participant_id, w.why, b.bucket, {cell}.bucket_is_leaving(b.version, b.leaving) AS moves INTO held
  FROM (
    SELECT h.participant_id, 'it is paused here, and would not be there: resume it first' AS why
    FROM {cell}.payment_paused_participants h
    UNION ALL
    SELECT g.name, 'its gate is closed here, and would not be there: open it first'
    FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') w
  JOIN {cell}.payment_buckets b ON b.bucket = {cell}.cell_bucket(w.participant_id)
  WHERE b.bucket = ANY (given)
  ORDER BY w.participant_id
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('participant %s of bucket %s can''t be moved now: %s', quote_literal(held.participant_id),
        held.bucket, held.why),
      HINT = CASE WHEN held.moves
        THEN 'Repeat railhead cell move once that is so, or end the move: railhead cell move --cancel.'
        ELSE 'Nothing was changed.' END;
  END IF;
  -- A new statement: it sees every participant whose transaction the locks have waited for.
  SELECT count(*) AS n, count(DISTINCT p.bucket) AS buckets, min(p.bucket) AS first INTO held
  FROM (SELECT {cell}.cell_bucket(s.participant_id) AS bucket FROM {cell}.participant_outbox_sequences s OFFSET 0) p
  WHERE p.bucket = ANY (given);
  IF held.n > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s participants of %s of the buckets, such as bucket %s, have payments in this cell', held.n,
        held.buckets, held.first),
      HINT = 'railhead cell move moves their participants; the payments stay here.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, digest, reason)
  SELECT b.bucket, b.version + 1, taker.name, taker.cell_id, coalesce(m.digest, ''), give_buckets.reason
  FROM {cell}.payment_buckets b
  LEFT JOIN {cell}.payment_bucket_moves m ON m.bucket = b.bucket AND m.version = b.version + 1 AND b.leaving = m.version
  WHERE b.bucket = ANY (given);
  UPDATE {cell}.payment_buckets b SET cell = taker.name, version = b.version + 1, mine = false
  WHERE b.bucket = ANY (given);
  PERFORM {cell}.log_operator_act('GIVE_BUCKETS', taker.name, NULL, give_buckets.reason,
    jsonb_build_object('buckets', to_jsonb(given)));
  RETURN cardinality(given);
END
$$;
-- end of give_buckets

-- function inquire_payment
CREATE OR REPLACE FUNCTION {cell}.inquire_payment(outbox_id uuid, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter {cell}.payment_dead_letters;
  last   {cell}.payment_outbox_attempts;
  whole  record;
  sends  record;
  told   record; -- reported sends that a restore forgot
  paused text;
  suspended {cell}.payment_outbox_suspensions; -- the open one
  number integer;
BEGIN
  PERFORM {cell}.require_reason(inquire_payment.reason);
  PERFORM {cell}.lock_payment(inquire_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = inquire_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  IF last.state IS DISTINCT FROM 'PARKED' OR {cell}.payment_certainty(inquire_payment.outbox_id,
    {cell}.server_is_settled()) <> 'OUTCOME_UNKNOWN'
    OR letter.reason IS NULL OR letter.reason NOT IN ('OUTCOME_UNKNOWN', 'TAMPERED') OR letter.status IN ('manual_replay', 'resolved')
    OR EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = inquire_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a parked instruction with an unknown outcome can be inquired about',
        coalesce({cell}.payment_outbox_state(inquire_payment.outbox_id), 'gone from the archive')),
      HINT = 'The rail is asked about a pending instruction without an operator, if it answers inquiries. Compare an '
        'ended instruction with the rail''s statement.';
  END IF;
  IF NOT EXISTS (
    SELECT FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = last.rail_type AND (p.profile #>> '{inquiry,max}')::integer > 0)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('rail %s can''t be asked: its profile allows no inquiry', last.rail_type),
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  paused := {cell}.pause_of(last.rail_type, letter.participant_id);
  IF paused IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s: no inquiry would be made', paused),
      HINT = 'Resume it, then ask. To resolve the payment as not executed meanwhile, give evidence and use '
        '--rail-silent.';
  END IF;
  -- Which lanes go on is decided in internal/lineage, which looks at earlier restores, too.
  SELECT s.* INTO suspended FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL;
  IF FOUND AND (
    SELECT bool_and(coalesce(r.rules ->> 'resend_on_unknown', 'NEVER') = 'SAME_KEY'
      AND suspended.known_until <= clock_timestamp()
      AND suspended.known_until > clock_timestamp() - (w.key_window - least(w.key_window / 10, interval '5 minutes')))
    FROM (
      SELECT p.profile AS rules
      FROM {cell}.payment_rails q
      JOIN {cell}.payment_rail_profiles p ON p.rail_type = q.rail_type AND p.version = q.profile_version
      WHERE q.rail_type = last.rail_type
      UNION ALL
      SELECT jsonb_array_elements(u.rules) FROM {cell}.rules_while_suspended() u WHERE u.rail_type = last.rail_type) r
    CROSS JOIN LATERAL (SELECT coalesce((r.rules ->> 'key_window')::interval, '0s') AS key_window) w) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the lane of rail %s is suspended since %s: no inquiry would be made', last.rail_type,
        to_char(suspended.opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Compare with the rails, and accept the server (railhead timeline accept), then ask. To resolve the payment '
        'as not executed meanwhile, give evidence and use --rail-silent.';
  END IF;
  -- The latest row with the content that was enqueued. The last row of an instruction that was
  -- stopped as TAMPERED has other content.
  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority, a.expires_at INTO whole
  FROM {cell}.v_outbox_attempts a
  JOIN {cell}.payment_outbox_keys k ON k.outbox_id = a.outbox_id
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.payload IS NOT NULL
  ORDER BY {cell}.payment_outbox_fingerprint(a.participant_id, a.rail_type, a.payload) = k.fingerprint DESC,
    a.attempt_no DESC
  LIMIT 1;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be inquired about',
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  SELECT s.* INTO sends FROM {cell}.known_sends(inquire_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(inquire_payment.outbox_id) f;

  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = inquire_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, error_code, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'UNKNOWN', clock_timestamp(), 'ASKED',
    inquire_payment.reason, true, last.provisional);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers, next_action, outcome_unknown, provisional,
     first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, whole.expires_at, copy.headers, 'INQUIRE', true, last.provisional,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.n + told.n,
    (SELECT count(*) FROM {cell}.payment_outbox_attempts q WHERE q.outbox_id = inquire_payment.outbox_id
      AND q.state = 'INQUIRING'),
    sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = inquire_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.note_order_change(last.outbox_id, last.rail_type, true);
  PERFORM {cell}.log_operator_act('INQUIRE', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    inquire_payment.reason,
    jsonb_build_object('attempt_no', number));
  RETURN number;
END
$$;
-- end of inquire_payment

-- function just_replayed
CREATE OR REPLACE FUNCTION {cell}.just_replayed(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT a.state = 'REPLAYED'
        AND a.completed_at BETWEEN clock_timestamp() - interval '15 minutes' AND clock_timestamp() AND CASE WHEN a.profile_version IS NOT NULL
        THEN a.profile_version = (SELECT r.profile_version FROM {cell}.payment_rails r WHERE r.rail_type = a.rail_type)
        -- Older rows do not record the version.
        ELSE NOT EXISTS (
          SELECT FROM {cell}.payment_rail_profiles p WHERE p.rail_type = a.rail_type
            AND p.applied_at > a.created_at) END
        -- If the answer to this claim proves that nothing left, the old server may still have sent
        -- the instruction again.
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts c
          WHERE c.outbox_id = $1 AND c.state = 'DISPATCHING' AND c.attempt_no > a.attempt_no
            AND c.claimed_at < (SELECT {cell}.may_be_forgotten_until($1)))
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.state NOT IN ('DISPATCHING', 'INQUIRING')
        AND coalesce(a.result, '') <> ALL (ARRAY['REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED', 'REFUSED_FINAL', 'REFUSED'])
      ORDER BY a.attempt_no DESC
      LIMIT 1), false));
END
$$;
-- end of just_replayed

-- function pause_participant
CREATE OR REPLACE FUNCTION {cell}.pause_participant(participant_id text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
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

-- function replay_payment
CREATE OR REPLACE FUNCTION {cell}.replay_payment(outbox_id uuid, reason text, expires_at timestamptz DEFAULT NULL)
  RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter     {cell}.payment_dead_letters;
  last       {cell}.payment_outbox_attempts;
  whole      record;
  profile    jsonb;
  version    integer; -- the version of the profile
  sends      record;
  told       record; -- reported sends that a restore forgot
  doubted    boolean; -- some send may still be in progress
  key_window interval; -- the shortest one
  known_for interval; -- the longest key window
  keyed      boolean; -- the rail keeps the key of each send
  paused     text;
  unpaid     boolean; -- it has ended, and was certainly not made
  anew       text; -- what has to be done before it is paid as another instruction
  sent_under jsonb;
  number     integer;
BEGIN
  PERFORM {cell}.require_reason(replay_payment.reason);
  PERFORM {cell}.require_settled_server('a replay');
  IF replay_payment.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH006', MESSAGE = 'expires_at is already past',
      HINT = 'Give a later time, or none.';
  END IF;
  PERFORM {cell}.lock_payment(replay_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = replay_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and has no dead letter to replay',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'));
  END IF;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  -- Otherwise another instruction may be a second payment, also after the rail's "no such payment", which allows a re-send
  -- of the same key.
  unpaid := last.state = 'FAILED' AND {cell}.payment_certainty(replay_payment.outbox_id, true) NOT IN ('CONTRADICTED',
    'OUTCOME_UNKNOWN');
  anew := CASE WHEN unpaid THEN 'The participant enqueues the payment again as a new instruction.'
    ELSE 'The payment may have been made. Find out from the rail what became of it, and resolve it with that evidence. '
      'Only after "not executed" the participant enqueues it again as a new instruction.' END;
  -- The operator who closed it may have asked the participant to pay in another way.
  IF letter.status IN ('manual_replay', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and its dead letter is already closed (%s)',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'), letter.status),
      HINT = CASE
        WHEN letter.status = 'manual_replay'
          THEN 'It was replayed already; see what became of it: railhead payment show. It is not enqueued again.'
        WHEN unpaid
          THEN 'The participant enqueues the payment again as a new instruction, if it is still wanted and was not made '
            'in another way.'
        ELSE 'See what became of it: railhead payment show. Only what was certainly not paid is enqueued again.' END;
  END IF;

  IF letter.reason = 'UNCLAIMABLE' THEN
    IF {cell}.put_back_after(replay_payment.outbox_id) IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and was put back in pending: it can''t be replayed',
          {cell}.put_back_after(replay_payment.outbox_id)),
        HINT = 'Close its dead letter, or resolve it if it may have been paid.';
    END IF;
    UPDATE {cell}.payment_outbox_pending p
    SET next_attempt_at = clock_timestamp(), expires_at = coalesce(replay_payment.expires_at, p.expires_at)
    WHERE p.outbox_id = replay_payment.outbox_id
    RETURNING p.attempt_count INTO number;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and has no row in pending: it can''t be replayed',
          coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive')),
        HINT = 'Find out who removed the row. Find out from the rail what became of the payment, then resolve it with '
          'that evidence.';
    END IF;
    PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
    PERFORM {cell}.note_order_change(replay_payment.outbox_id, letter.rail_type, true);
    PERFORM {cell}.log_operator_act('REPLAY', letter.instruction_id, replay_payment.outbox_id, replay_payment.reason);
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN number;
  END IF;

  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority, a.expires_at INTO whole
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.payload IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT p.profile, p.version INTO profile, version
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = last.rail_type;
  -- The sends that may have reached the rail, whatever their outcome.
  SELECT s.* INTO sends FROM {cell}.known_sends(replay_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(replay_payment.outbox_id) f;

  IF letter.reason NOT IN ('FAILED', 'EXPIRED') AND NOT (
    letter.reason = 'OUTCOME_UNKNOWN' AND last.state = 'PARKED'
    AND {cell}.inquiry_said_not_executed(replay_payment.outbox_id, profile, sends.first_at, sends.last_at))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be replayed: %s', letter.reason,
        CASE letter.reason WHEN 'TAMPERED' THEN 'its payload is not the one that was enqueued'
          ELSE 'the payment may have been made' END),
      HINT = CASE WHEN letter.reason = 'OUTCOME_UNKNOWN'
        AND clock_timestamp() - sends.first_at >= (profile #>> '{inquiry,not_found_until}')::interval
          THEN 'Its first send is older than inquiry.not_found_until of the profile: the rail''s "no such '
            'payment" no longer proves anything. ' ELSE '' END
        || 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may be '
          'replayed after that.';
  END IF;
  IF last.state IS NULL OR last.state NOT IN ('FAILED', 'PARKED') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and can''t be replayed',
        coalesce(last.state::text, 'gone from the archive'));
  END IF;
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.state = 'DISPATCHED')
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction was DISPATCHED once, and gets no second DISPATCHED row: it can''t be replayed',
      HINT = anew;
  END IF;
  -- A send that became known after the instruction was FAILED, or was resolved as not executed, has
  -- no answer, unless the rail answered for the whole payment. The rail may also have reported the
  -- execution since.
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.attempt_no > last.attempt_no AND a.state = 'LATE_OUTCOME'
      AND (a.result = 'EXECUTED' OR (last.result IS DISTINCT FROM 'REFUSED'
        OR last.error_code IS NOT DISTINCT FROM 'RESOLVED')
        AND (a.result IN ('ACCEPTED', 'UNKNOWN', 'IN_PROGRESS') OR a.outcome_unknown AND NOT last.outcome_unknown)))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('what became known after row %s called it %s contradicts that: the payment may have been made',
        last.attempt_no, last.state),
      HINT = 'Find out from the rail. If it was not made, close the dead letter, and the participant enqueues it '
        'again as a new instruction.';
  END IF;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be replayed',
      HINT = anew;
  END IF;
  IF {cell}.payment_outbox_fingerprint(whole.participant_id, whole.rail_type, whole.payload) <> (
    SELECT k.fingerprint FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = replay_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the payload is not the one that was enqueued: it can''t be replayed',
      HINT = 'Find out who changed it. ' || anew;
  END IF;
  IF sends.n + told.n > 0 AND coalesce(profile ->> 'id_after_refusal', 'NEW') = 'NEW' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it may have been sent, and rail %s requires a new id for another try, and a replay keeps the old one',
        last.rail_type),
      HINT = anew;
  END IF;

  -- "No such payment" allows a send, but does not answer the earlier sends. Under the same key the
  -- new send takes their place, but only inside the key window. If the rail remembers no keys, the
  -- operator is responsible.
  doubted := last.state = 'PARKED' AND last.outcome_unknown;
  -- The strictest rule of the profiles under which it was sent applies.
  sent_under := coalesce({cell}.rules_of_sends(replay_payment.outbox_id), '[]') || profile;
  SELECT min(w), max(w) INTO key_window, known_for
  FROM (SELECT coalesce((r ->> 'key_window')::interval, '0s') AS w FROM jsonb_array_elements(sent_under) r) r;
  SELECT coalesce(bool_and(coalesce(r ->> 'resend_on_unknown', 'NEVER') = 'SAME_KEY'), false) INTO keyed
  FROM jsonb_array_elements(sent_under) r;
  IF doubted AND keyed
    -- For a send that was made before an acceptance of a timeline, the key may be as old as the
    -- earliest forgotten send (payment.Claim.Weigh).
    AND (
      SELECT f.at <= clock_timestamp() AND f.at > clock_timestamp() - (key_window - least(key_window / 10,
        interval '5 minutes'))
      FROM (SELECT {cell}.key_since(replay_payment.outbox_id, known_for + least(known_for / 10, interval '5 minutes'),
        least(sends.first_at, told.first_at, (
        SELECT min(s.known_until) FROM {cell}.payment_outbox_suspensions s
        WHERE sends.first_at > s.known_until
          AND (s.accepted_at IS NULL OR sends.first_at < s.accepted_at)))) AS at) f) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('its key window is over, or not known: rail %s may no longer remember the key, and pay twice',
        last.rail_type),
      HINT = 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may '
        'be replayed after that.';
  END IF;

  -- The rail's word ages while nothing is claimed, and on such a rail nothing else prevents a second payment.
  IF doubted AND NOT keyed THEN
    paused := {cell}.pause_of(last.rail_type, letter.participant_id);
    IF paused IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s: the replay would be sent later, when "no such payment" may no longer be so', paused),
        HINT = 'Resume it, have the rail asked again (railhead payment inquire), then replay the payment.';
    END IF;
  END IF;

  -- The pending row of an ended instruction was put back.
  DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = replay_payment.outbox_id;
  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, profile_version, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'REPLAYED', clock_timestamp(), version,
    replay_payment.reason, doubted, false);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers,
     outcome_unknown, first_sent_at, last_sent_at, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, coalesce(replay_payment.expires_at, CASE
      WHEN whole.expires_at > clock_timestamp() THEN whole.expires_at END), copy.headers, doubted,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = replay_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
  PERFORM {cell}.note_order_change(last.outbox_id, last.rail_type, true);
  PERFORM {cell}.log_operator_act('REPLAY', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    replay_payment.reason,
    jsonb_build_object('letter', letter.reason, 'attempt_no', number));
  RETURN number;
END
$$;
-- end of replay_payment

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 37, serves 13'
$$;
-- end of schema_version
