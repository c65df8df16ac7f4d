-- Migration 63, references as they are seen. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function acting_person
CREATE OR REPLACE FUNCTION {cell}.acting_person() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  person text COLLATE "C" := current_setting('railhead.person', true);
BEGIN
  person := CASE WHEN person ~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]'
    THEN substring(person FROM E'^[\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]*([^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000](?:.*[^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000])?)') END;
  IF octet_length(person) > 512 OR person ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the person on whose behalf the login acts (railhead.person) has at most 512 bytes and no control '
        'character',
      HINT = 'Set railhead.person to the name by which the person logged in.';
  END IF;
  RETURN person;
END
$$;
-- end of acting_person

-- function clean_reference
CREATE OR REPLACE FUNCTION {cell}.clean_reference(reference text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  bare CONSTANT text COLLATE "C" := substring(reference COLLATE "C" FROM E'^[\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]*([^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000](?:.*[^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000])?)');
BEGIN
  RETURN CASE WHEN octet_length(bare) > 256 OR bare ~ E'[\\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]' THEN '' ELSE coalesce(bare, '') END;
END
$$;
-- end of clean_reference

-- function confirm_map
CREATE OR REPLACE FUNCTION {cell}.confirm_map(server text, compared text[], gone text[], reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here     {cell}.payment_cells;
  left_out text;
BEGIN
  PERFORM {cell}.require_durable_map();
  IF compared IS NULL OR gone IS NULL OR array_position(compared || gone, NULL) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the names of cells must not be null';
  END IF;
  PERFORM {cell}.require_map_server(confirm_map.server);
  SELECT c.* INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'this cell is in no directory, and has no map',
      HINT = 'If it was in one: railhead cell rejoin.';
  END IF;
  SELECT c.name INTO left_out FROM {cell}.payment_cells c
  WHERE NOT c.here AND c.name <> ALL (confirm_map.compared || confirm_map.gone)
  ORDER BY c.name
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the map was not compared with that of cell %s', left_out),
      HINT = 'Repeat this once that cell can be reached. If it is lost for good: railhead cell sync --without.';
  END IF;
  IF coalesce(confirm_map.reason, '') COLLATE "C" !~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]' AND NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE NOT c.here)
    AND NOT {cell}.server_is_settled() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'this cell knows no other cell: if it was restored to a time before they joined, it takes their participants',
      HINT = 'Set the connection strings of all cells, and repeat this. If there never was another one: --reason WHY.';
  END IF;
  INSERT INTO {cell}.payment_cell_checks (system_identifier, timeline, server_started_at, database_oid, table_oid,
    went_back, compared, gone, reason)
  SELECT s.system_identifier::text, {cell}.server_timeline(), pg_postmaster_start_time(), {cell}.database_oid(),
    '{cell}.payment_cell_checks'::regclass, {cell}.server_went_back(),
    ARRAY(SELECT DISTINCT c FROM unnest(confirm_map.compared) AS c ORDER BY c),
    ARRAY(SELECT DISTINCT g FROM unnest(confirm_map.gone) AS g ORDER BY g), confirm_map.reason
  FROM pg_control_system() s;
  IF confirm_map.gone <> '{}' THEN
    PERFORM {cell}.require_reason(confirm_map.reason);
  END IF;
  IF confirm_map.reason COLLATE "C" ~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]' THEN
    PERFORM {cell}.log_operator_act('CONFIRM_MAP', here.name, NULL, confirm_map.reason,
      jsonb_build_object('compared', to_jsonb(confirm_map.compared), 'gone', to_jsonb(confirm_map.gone)));
  END IF;
END
$$;
-- end of confirm_map

-- function note_cell_server
CREATE OR REPLACE FUNCTION {cell}.note_cell_server(cell text, server text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  form  CONSTANT text := '^([0-9]{1,20})/([0-9]{1,10})/([0-9]{4}-[0-9:. -]{1,40}[+]00)/([0-9]{1,9})$';
  known {cell}.payment_cell_servers;
  was   text[] COLLATE "C";
  now   CONSTANT text[] COLLATE "C" := regexp_match(note_cell_server.server COLLATE "C", form);
BEGIN
  PERFORM {cell}.require_durable_map();
  IF now IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a server is system identifier, timeline, start in UTC and a count, separated by slashes',
      HINT = 'Read it in that cell: SELECT map_server(). A standby has none.';
  END IF;
  IF NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE c.name = note_cell_server.cell COLLATE "C" AND NOT c.here) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(note_cell_server.cell, 64)), 'NULL')),
      HINT = 'See railhead cell list.';
  END IF;
  LOCK TABLE {cell}.payment_cell_servers IN SHARE ROW EXCLUSIVE MODE;
  SELECT s.* INTO known FROM {cell}.payment_cell_servers s
  WHERE s.cell = note_cell_server.cell COLLATE "C"
  ORDER BY s.seen DESC
  LIMIT 1;
  IF known.server = note_cell_server.server COLLATE "C" THEN
    RETURN false;
  END IF;
  was := regexp_match(known.server, form);
  IF NOT (was[1] = now[1] AND (was[2]::bigint, was[3]::timestamptz, was[4]::integer)
    < (now[2]::bigint, now[3]::timestamptz, now[4]::integer))
    AND coalesce(note_cell_server.reason, '') COLLATE "C" !~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the server that was read as cell %s (system %s, timeline %s, started %s) does not follow the one that this cell knows (system %s, timeline %s, started %s)',
        known.cell, now[1], now[2], now[3], was[1], was[2], was[3]),
      HINT = 'Another act may have seen a newer one meanwhile: repeat this first. If it stays, it may be a copy of the '
        'cell''s database: look where its connection setting leads. If it is the cell (restored without its history of '
        'timelines, started while its clock was set back, or moved to a new PostgreSQL): railhead cell sync --server '
        'CELL --reason WHY.';
  END IF;
  INSERT INTO {cell}.payment_cell_servers (cell, seen, server, reason)
  VALUES (note_cell_server.cell, coalesce(known.seen, 0) + 1, note_cell_server.server, note_cell_server.reason);
  IF note_cell_server.reason COLLATE "C" ~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]' THEN
    PERFORM {cell}.log_operator_act('NOTE_CELL_SERVER', note_cell_server.cell, NULL, note_cell_server.reason,
      jsonb_build_object('server', note_cell_server.server, 'before', known.server));
  END IF;
  RETURN true;
END
$$;
-- end of note_cell_server

-- function require_reason
CREATE OR REPLACE FUNCTION {cell}.require_reason(reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF coalesce(reason, '') COLLATE "C" !~ E'[^ \\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]' OR octet_length(reason) > 2000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a reason of 1 to 2000 bytes is required',
      HINT = 'Give the reason, for the reader of the log.';
  END IF;
END
$$;
-- end of require_reason

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
      MESSAGE = 'the rail''s reference has a character that is not seen: it would be taken for another reference',
      HINT = 'Type the reference as the document shows it, do not paste it. Only plain spaces may be within it.';
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
      WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference
        AND own.error_code IS DISTINCT FROM 'RESOLVED')
    THEN
      SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
      WHERE a.rail_reference = reference AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
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
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND a.rail_reference <> reference AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference
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

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 63, serves 13'
$$;
-- end of schema_version
