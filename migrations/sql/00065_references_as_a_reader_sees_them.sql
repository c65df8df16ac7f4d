-- Migration 65, references as a reader sees them. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function clean_reference
CREATE OR REPLACE FUNCTION {cell}.clean_reference(reference text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  bare CONSTANT text COLLATE "C" := substring(reference COLLATE "C" FROM E'^[\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]*([^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000](?:.*[^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000])?)');
BEGIN
  IF bare IS NULL OR octet_length(bare) > 256 OR bare ~ E'[\\u0001-\\u001F\\u007F-\\u009F]' THEN
    RETURN '';
  END IF;
  RETURN btrim(regexp_replace(regexp_replace(bare, E'[\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]', ' ', 'g'), E'[\\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]', '', 'g'));
END
$$;
-- end of clean_reference

-- function make_attempt_partitions
CREATE OR REPLACE FUNCTION {cell}.make_attempt_partitions(stem text, months_ahead integer) RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
  parent     CONSTANT regclass := '{cell}.' || stem;
  remnant    CONSTANT text := stem || '_default';
  this_month CONSTANT timestamptz := date_trunc('month', clock_timestamp());
  -- A later id does not hold a real time: a clock was wrong, or the id was written by hand.
  horizon    CONSTANT timestamptz := this_month + interval '10 years';
  -- goose writes the time in the zone of its session, which is at most a day off.
  made_in    CONSTANT timestamptz := (
    SELECT date_trunc('month', min(v.tstamp)::timestamptz) FROM {cell}.schema_migrations v WHERE v.version_id > 0);
  oldest     uuid := (
    SELECT min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent);
  attached   oid;
  month      timestamptz;
  first_used timestamptz;
  last_used  timestamptz;
  holds      text;
BEGIN
  -- The cell was made while the clock was ahead, and no month has left: each instruction from before the oldest one
  -- still has a row.
  IF oldest > {cell}.uuidv7_floor(this_month) AND oldest <= {cell}.uuidv7_floor(made_in) THEN
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id < oldest
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = k.outbox_id)
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id))
    THEN
      oldest := NULL;
    END IF;
  END IF;
  SELECT t.partdefid INTO attached FROM pg_partitioned_table t WHERE t.partrelid = parent;
  IF attached = 0 THEN
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem, remnant, NULL, NULL);
      attached := to_regclass('{cell}.' || remnant);
      RETURN NEXT remnant;
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        '%s_default was detached from %s and holds rows of months that have partitions: it is not attached again', stem,
          parent),
        HINT = format('Compare its rows with those of the archive, INSERT INTO %s what is missing there, and rename it; the next run creates another one.', parent);
    END;
  END IF;

  IF attached = to_regclass('{cell}.' || remnant) THEN
    EXECUTE format('SELECT date_trunc(''month'', {cell}.uuidv7_time(r.outbox_id)) FROM {cell}.%I r ORDER BY r.outbox_id LIMIT 1', remnant)
    INTO first_used;
    EXECUTE format('SELECT date_trunc(''month'', {cell}.uuidv7_time(r.outbox_id)) FROM {cell}.%I r ORDER BY r.outbox_id DESC LIMIT 1', remnant)
    INTO last_used;
  END IF;
  IF last_used > horizon THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows whose outbox_id is of %s, which can''t be the time of an enqueue; it stays as it is', parent, last_used::date);
  ELSIF {cell}.uuidv7_floor(first_used) < oldest THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows of %s, before the oldest month attached; it stays as it is', parent,
        to_char(first_used, 'YYYY-MM')),
      HINT = 'The month was detached, or a clock was behind. As a partition it would make each payment of a month that left count as lost.';
  ELSIF EXISTS (
    SELECT FROM generate_series(first_used, last_used, interval '1 month') m(month)
    WHERE to_regclass('{cell}.' || stem || '_' || to_char(m.month, '"y"YYYY"m"MM')) IS NOT NULL)
  THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows from %s to %s, around months that have partitions; it stays as it is',
      parent, first_used::date, last_used::date);
  ELSIF first_used IS NOT NULL THEN
    holds := stem || '_' || to_char(first_used, '"y"YYYY"m"MM') || CASE WHEN first_used < last_used
      THEN to_char(last_used, '"_y"YYYY"m"MM') ELSE '' END;
    EXECUTE format('ALTER TABLE %s DETACH PARTITION {cell}.%I', parent, remnant);
    EXECUTE format('ALTER TABLE {cell}.%I RENAME TO %I', remnant, holds);
    PERFORM {cell}.attach_attempt_partition(stem, holds, first_used, last_used + interval '1 month');
    PERFORM {cell}.attach_attempt_partition(stem, remnant, NULL, NULL);
    RETURN NEXT remnant;
  END IF;

  IF {cell}.uuidv7_floor(this_month + interval '1 month') <= oldest THEN
    RAISE WARNING USING MESSAGE = format(
      'the clock is in %s, before the oldest month of %s, which is %s: no earlier partition is created',
        to_char(this_month, 'YYYY-MM'), parent, to_char({cell}.uuidv7_time(oldest), 'YYYY-MM')),
      HINT = 'Compare the clock of the server with another one.';
  END IF;
  FOR month IN
    SELECT generate_series(this_month, this_month + make_interval(months => months_ahead), interval '1 month')
  LOOP
    CONTINUE WHEN {cell}.uuidv7_floor(month + interval '1 month') <= oldest OR EXISTS (
      SELECT FROM pg_inherits i
      WHERE i.inhparent = parent
        AND {cell}.partition_holds(i.inhrelid, {cell}.uuidv7_floor(month)));
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem, stem || '_' || to_char(month, '"y"YYYY"m"MM'), month,
        month + interval '1 month');
      RETURN NEXT stem || '_' || to_char(month, '"y"YYYY"m"MM');
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        'the DEFAULT partition of %s holds rows of %s, which gets no partition', parent, to_char(month, 'YYYY-MM'));
    END;
  END LOOP;
END
$$;
-- end of make_attempt_partitions

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
  reference text COLLATE "C" := nullif({cell}.clean_reference(resolve_payment.rail_reference), '');
  given   text COLLATE "C" := btrim(resolve_payment.rail_reference); -- as builds of before migration 63 stored it
  document text;
  on_rail text COLLATE "C";
  since   timestamptz; -- the time than which the evidence can't be older
  forgot  timestamptz; -- the time until which forgotten sends may have begun
  other   uuid; -- the payment that already has the reference
BEGIN
  PERFORM {cell}.require_reason(resolve_payment.reason);
  -- Somewhere on Earth it may be the next day already.
  IF resolve_payment.evidence_date > current_date + 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('the day of the evidence, %s, is in the future', resolve_payment.evidence_date),
      HINT = 'Give the day that is on the document.';
  END IF;
  IF resolve_payment.executed IS NULL OR coalesce(resolve_payment.document, '') COLLATE "C" !~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]'
    OR resolve_payment.evidence_date IS NULL
    OR resolve_payment.executed AND coalesce(resolve_payment.rail_reference, '') COLLATE "C" !~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]'
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
  document := substring(resolve_payment.document COLLATE "C" FROM E'^[\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]*([^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000](?:.*[^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000])?)');
  IF reference IS NULL AND resolve_payment.rail_reference COLLATE "C" ~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the rail''s reference has a control character, such as a tab or a line end, within it',
      HINT = 'Give the reference as the document shows it, on one line.';
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
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts own
      WHERE own.outbox_id = resolve_payment.outbox_id AND {cell}.clean_reference(own.rail_reference) = reference
        AND own.error_code IS DISTINCT FROM 'RESOLVED')
    THEN
      SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
      WHERE a.rail_reference IN (reference, given) AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
        AND (a.state = 'DISPATCHED' OR a.result = 'EXECUTED')
      LIMIT 1;
      -- After the archive: a month that leaves it meanwhile has its references kept by then.
      IF other IS NULL THEN
        SELECT r.outbox_id INTO other FROM {cell}.payment_retired_references r
        WHERE r.rail_reference = reference AND r.outbox_id <> resolve_payment.outbox_id AND r.rail_type = on_rail
        LIMIT 1;
      END IF;
    END IF;
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
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND {cell}.clean_reference(a.rail_reference) <> reference
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND {cell}.clean_reference(own.rail_reference) = reference
            AND own.error_code IS DISTINCT FROM 'RESOLVED'));
  END IF;
  IF last.state::text IS DISTINCT FROM verdict THEN
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO number FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id;
    o.outbox_id := resolve_payment.outbox_id;
    o.error_code := 'RESOLVED';
    o.error_message := format('%s%s (%s, %s)', CASE
      WHEN against IS NOT NULL THEN format('against the rail''s word (row %s): ', against)
      WHEN silent THEN 'without the rail''s word: ' END,
      resolve_payment.reason, document, resolve_payment.evidence_date);
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
      'evidence_date', resolve_payment.evidence_date, 'document', document, 'rail_silent', silent,
        'against_row', against,
      'letter', letter.reason, 'was', last.state));
  RETURN verdict;
END
$$;
-- end of resolve_payment

-- function retire_references
CREATE OR REPLACE FUNCTION {cell}.retire_references(month regclass) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  added bigint;
BEGIN
  EXECUTE format(
    'INSERT INTO {cell}.payment_retired_references (outbox_id, rail_type, rail_reference) '
    'SELECT a.outbox_id, a.rail_type, {cell}.clean_reference(a.rail_reference) FROM %s a '
    'WHERE a.rail_reference IS NOT NULL AND (a.state = ''DISPATCHED'' OR a.result = ''EXECUTED'') '
    'ON CONFLICT DO NOTHING', month);
  GET DIAGNOSTICS added = ROW_COUNT;
  RETURN added;
END
$$;
-- end of retire_references

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 65, serves 13'
$$;
-- end of schema_version
