-- Migration 68, what resolves and what opens. Binaries that need migration 13 or a newer one work on a cell that has it.

-- The last row at the close: only a newer one opens the letter again.
ALTER TABLE {cell}.payment_dead_letters ADD COLUMN closed_after_no integer;
COMMENT ON COLUMN {cell}.payment_dead_letters.closed_after_no IS
  'The number of the last row of the instruction when the letter was closed last. Null for one that was closed by '
  'builds that did not keep it, or was never closed.';

-- By what reference an operator resolved a payment. It is read for each evidence of an execution.
CREATE INDEX payment_operator_log_reference
  ON {cell}.payment_operator_log (((detail ->> 'rail_reference') COLLATE "C")) WHERE act = 'RESOLVE';

-- function answer_open_claim
CREATE OR REPLACE FUNCTION {cell}.answer_open_claim(
  o {cell}.outbox_outcome, claim {cell}.payment_outbox_attempts, last_no integer, whole boolean) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  executes boolean := o.state = 'DISPATCHED';
  proof    {cell}.payment_outbox_attempts;
  proven   boolean;
  -- the payment was refused since the claim; during an inquiry, not a repeated refusal of a send before the proof
  refused_since  boolean;
  two_references boolean; -- two executions since the claim have different references
  doubted  boolean;
  taken    boolean;
  found_none boolean := o.result = 'NOT_FOUND' AND o.next_action = 'SEND'; -- "no such payment" is accepted
  next_no  integer := last_no + 1;
  spent    text; -- the code of a refusal that ended the rail key
  reference text COLLATE "C"; -- of the execution: its own, else that of the proof
  told     record; -- reported sends that a restore forgot
  earlier  boolean := false; -- the claim is older than a failover, which its worker may not have noticed
  forgotten_at timestamptz; -- when the failover may first have forgotten a send
BEGIN
  SELECT a.* INTO proof FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no
    AND a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED'
  ORDER BY a.attempt_no LIMIT 1;
  proven := FOUND;
  IF executes AND NOT proven AND o.claim_no IS NOT NULL AND claim.state = 'DISPATCHING'
    AND {cell}.is_only_taken({cell}.acceptance_of_sends(o.outbox_id), o.result)
  THEN
    executes := false;
    o.state := 'ACCEPTED';
    o.result := 'ACCEPTED';
    o.next_action := 'INQUIRE';
    o.delay_ms := 0;
    o.outcome_unknown := true;
    o.provisional := true;
  END IF;
  reference := {cell}.clean_reference(coalesce(CASE WHEN executes THEN o.rail_reference END, proof.rail_reference));
  SELECT coalesce(bool_or(a.result = 'REFUSED' AND (claim.state = 'DISPATCHING' OR a.attempt_no > proof.attempt_no
    OR NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts send
      JOIN {cell}.payment_outbox_attempts answer ON answer.outbox_id = o.outbox_id
        AND answer.answers_attempt_no = send.attempt_no
      WHERE send.outbox_id = o.outbox_id AND send.state = 'DISPATCHING'
        AND answer.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED')
        AND {cell}.clean_reference(answer.rail_reference) = {cell}.clean_reference(a.rail_reference)))), false),
    coalesce(bool_or(a.result = 'EXECUTED' AND {cell}.clean_reference(a.rail_reference) <> reference), false)
  INTO refused_since, two_references
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no AND a.state = 'LATE_OUTCOME';

  IF proven AND NOT executes THEN
    IF o.result IS NOT NULL THEN
      PERFORM {cell}.append_outbox_row(o, o.attempt_id, next_no, 'LATE_OUTCOME', claim.attempt_no,
        claim.outcome_unknown, o.result, o.rail_reference);
      next_no := next_no + 1;
    END IF;
    PERFORM {cell}.append_outbox_row(o, CASE WHEN o.result IS NULL THEN o.attempt_id ELSE {cell}.uuidv7() END, next_no,
      'DISPATCHED', claim.attempt_no, false, 'EXECUTED', proof.rail_reference);
    -- These contradict the proof: a refusal of the whole payment, a refusal of the last send that
    -- may have been executed or under its reference, and another reference.
    IF o.result = 'REFUSED' OR refused_since OR two_references
      OR o.result IN ('REFUSED_FINAL', 'REFUSED') AND NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id) s
        WHERE NOT s.settled)
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no)
        OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, false)
      OR {cell}.rests_on_acceptance(o.outbox_id)
    THEN
      PERFORM {cell}.open_conflict(o.outbox_id,
        CASE WHEN two_references THEN 'TWO_REFERENCES' ELSE coalesce(o.error_code, o.rail_code) END);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'SETTLED';
  END IF;

  -- The outcome accounts for every send that was known when the claim was made. "No such payment"
  -- does not cover a send that became known during the inquiry, and is not accepted if the rail has
  -- meanwhile shown that it knows the payment (rail_has_seen).
  SELECT (NOT claim.outcome_unknown OR found_none) AND coalesce(bool_or(a.result IN ('ACCEPTED', 'UNKNOWN')
      OR a.outcome_unknown AND NOT claim.outcome_unknown OR found_none AND a.result IN ('ACCEPTED', 'EXECUTED', 'REFUSED', 'IN_PROGRESS')), false)
      -- A final refusal covers every send, by the profiles under which they were known to be made.
      OR claim.outcome_unknown AND o.state = 'FAILED' AND coalesce(bool_or(a.result IN ('ACCEPTED', 'UNKNOWN')
        OR a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL AND a.result IN ('REFUSED', 'IN_PROGRESS', 'NOT_FOUND', 'UNAVAILABLE')), false)
        AND NOT {cell}.rail_keeps_one_outcome(o.outbox_id)
      -- The worker judged the answer by what it knew when it called. The data may have gone back
      -- since.
      OR o.state = 'FAILED' AND {cell}.send_may_be_forgotten(o.outbox_id)
        AND NOT (coalesce(o.result IN ('REFUSED_FINAL', 'REFUSED'), false) AND {cell}.rail_keeps_one_outcome(o.outbox_id)),
    NOT claim.provisional AND coalesce(bool_or(a.result = 'ACCEPTED'), false)
  INTO doubted, taken
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no AND a.state = 'LATE_OUTCOME';
  -- A refusal of one send among several leaves the others unknown.
  IF (doubted OR taken OR o.result = 'REFUSED') AND NOT executes AND whole IS NOT TRUE THEN
    o.outcome_unknown := true;
    o.provisional := coalesce(o.provisional, false) OR taken;
    IF (taken OR found_none) AND o.next_action IS NOT NULL THEN
      o.next_action := 'INQUIRE';
    END IF;
    IF o.state = 'FAILED' THEN
      o.state := 'PARKED';
      o.dead_reason := 'OUTCOME_UNKNOWN';
    END IF;
  END IF;

  -- Everything that the old server recorded of this claim, and sent later, is forgotten. The worker
  -- of a claim that was made after the failover knows of it. For such a claim, an answer which
  -- proves that nothing left raises no doubt.
  IF o.next_action = 'SEND' AND NOT o.outcome_unknown THEN
    earlier := coalesce(claim.claimed_at < {cell}.may_be_forgotten_until(o.outbox_id), false);
    o.outcome_unknown := earlier OR coalesce(o.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS'), false)
      AND {cell}.send_may_be_forgotten(o.outbox_id);
  END IF;

  IF o.next_action = 'SEND' THEN
    spent := (
      SELECT a.error_code FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no
        AND a.state = 'LATE_OUTCOME' AND a.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS')
        AND a.error_code IN ('NEW_ID_NEEDED', 'BUSINESS_REFUSED')
        -- A refusal before the last replay does not count.
        AND coalesce(a.answers_attempt_no, 0) >= coalesce((
          SELECT max(r.attempt_no) FROM {cell}.payment_outbox_attempts r
          WHERE r.outbox_id = o.outbox_id AND r.state = 'REPLAYED'), 0)
      ORDER BY a.attempt_no LIMIT 1);
    IF spent IS NOT NULL THEN
      o.outcome_unknown := true;
      o.next_action := NULL;
      o.park_attempt_id := coalesce(o.park_attempt_id, {cell}.uuidv7());
      o.dead_reason := 'OUTCOME_UNKNOWN';
    END IF;
  END IF;

  PERFORM {cell}.append_outbox_row(o, o.attempt_id, next_no, o.state, claim.attempt_no,
    o.outcome_unknown AND NOT executes, o.result, o.rail_reference);
  o.error_code := coalesce(spent, o.error_code);
  IF executes THEN
    -- A report that arrives while the send is in flight is the proof itself.
    IF refused_since AND (proven OR o.claim_no IS NULL AND claim.state = 'DISPATCHING')
      OR proven AND (two_references OR {cell}.rests_on_acceptance(o.outbox_id))
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no)
        OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, o.claim_no IS NOT NULL)
    THEN
      PERFORM {cell}.open_conflict(o.outbox_id, CASE WHEN proven AND two_references THEN 'TWO_REFERENCES' END);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'IN';
  END IF;
  IF o.park_attempt_id IS NOT NULL THEN
    next_no := next_no + 1;
    PERFORM {cell}.append_outbox_row(o, o.park_attempt_id, next_no, 'PARKED', NULL, o.outcome_unknown, NULL, NULL);
  END IF;
  IF o.dead_reason IS NOT NULL THEN
    PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY[o.dead_reason],
      ARRAY[coalesce(o.error_code, o.rail_code)]);
  END IF;
  IF o.next_action IS NOT NULL THEN
    SELECT f.* INTO told FROM {cell}.forgotten_sends(o.outbox_id) f;
    IF earlier THEN
      forgotten_at := (SELECT min(greatest(s.known_until, 'epoch')) FROM {cell}.payment_outbox_suspensions s
        WHERE s.opened_at > claim.claimed_at);
    END IF;
    INSERT INTO {cell}.payment_outbox_pending AS p
      (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
        headers, next_action, outcome_unknown, provisional,
       first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
    VALUES (claim.outbox_id, claim.participant_id, claim.rail_type, claim.payload, next_no,
      clock_timestamp() + make_interval(secs => o.delay_ms / 1000.0),
      claim.enqueued_at, claim.priority, claim.expires_at, claim.headers, o.next_action, o.outcome_unknown,
      o.provisional, least(CASE WHEN o.counts_send THEN coalesce(claim.first_sent_at, claim.claimed_at)
        ELSE claim.first_sent_at END, told.first_at, forgotten_at),
      greatest(CASE WHEN o.counts_send THEN claim.claimed_at ELSE claim.last_sent_at END, told.last_at, forgotten_at),
      o.send_count, o.inquiry_count, CASE WHEN o.counts_send
        OR claim.first_sent_at IS NOT NULL OR earlier THEN claim.render_version END)
    -- A row that is there already was put back while the instruction was claimed. It gets
    -- attempt_count 0: see record.sql.
    ON CONFLICT ON CONSTRAINT payment_outbox_pending_pk DO UPDATE SET
      attempt_count = 0,
      outcome_unknown = p.outcome_unknown OR excluded.outcome_unknown;
  END IF;
  RETURN 'IN';
END
$$;
-- end of answer_open_claim

-- function clean_reference
CREATE OR REPLACE FUNCTION {cell}.clean_reference(reference text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  seen text COLLATE "C";
  bare CONSTANT text COLLATE "C" := substring(reference COLLATE "C" FROM E'^[\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]*([^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000](?:.*[^\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000])?)');
BEGIN
  IF bare IS NULL OR octet_length(bare) > 256 OR bare ~ E'[\\u0001-\\u001F\\u007F-\\u009F]' THEN
    RETURN NULL;
  END IF;
  seen := btrim(regexp_replace(regexp_replace(bare, E'[\\u0009\\u000A\\u000B\\u000C\\u000D\\u0020\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]', ' ', 'g'), E'[\\u0001-\\u001F\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F-\\u1160\\u1680\\u17B4-\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A\\U000E0000-\\U000E0FFF]', '', 'g'));
  IF getdatabaseencoding() = 'UTF8' THEN
    seen := normalize(seen, NFC);
  END IF;
  RETURN CASE WHEN seen <> '' AND octet_length(seen) <= 256 THEN seen END;
END
$$;
-- end of clean_reference

-- function executed_twice
CREATE OR REPLACE FUNCTION {cell}.executed_twice(outbox_id uuid, after_no integer, own boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH e AS (
      SELECT x.* FROM {cell}.executions_of($1) x WHERE $3 OR NOT x.by_another
    )
    SELECT EXISTS (
      SELECT FROM e one
      JOIN e other ON other.claimed_at < one.claimed_at
      WHERE greatest(one.attempt_no, other.attempt_no) > $2
        AND ({cell}.clean_reference(one.rail_reference) = {cell}.clean_reference(other.rail_reference)) IS NOT TRUE
        AND one.claimed_at - other.claimed_at >= {cell}.rail_knows_keys_for($1)));
END
$$;
-- end of executed_twice

-- function keep_letter_open
CREATE OR REPLACE FUNCTION {cell}.keep_letter_open() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
    IF NEW.status IN ('manual_replay', 'resolved') AND OLD.status NOT IN ('manual_replay', 'resolved') THEN
      NEW.closed_after_no := (
        SELECT coalesce(max(a.attempt_no), 0) FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = NEW.outbox_id);
    END IF;
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = '42501',
    MESSAGE = format('the status of the dead letter of %s can''t be changed by an update', OLD.outbox_id),
    HINT = 'Use railhead dead-letter, which logs the operator and the reason.';
END
$$;
-- end of keep_letter_open

-- function open_conflict
CREATE OR REPLACE FUNCTION {cell}.open_conflict(outbox_id uuid, error_code text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  INSERT INTO {cell}.payment_outbox_contradictions (outbox_id, attempt_no)
  SELECT a.outbox_id, max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = open_conflict.outbox_id GROUP BY a.outbox_id
  ON CONFLICT DO NOTHING;
  PERFORM {cell}.open_dead_letters(ARRAY[open_conflict.outbox_id], ARRAY['CONFLICT'], ARRAY[open_conflict.error_code]);
END
$$;
-- end of open_conflict

-- function open_dead_letters
CREATE OR REPLACE FUNCTION {cell}.open_dead_letters(outbox_ids uuid[], reasons text[], error_codes text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO {cell}.payment_dead_letters AS d
    (outbox_id, instruction_id, participant_id, rail_type, reason, error_code,
     amount, currency, attempts, first_attempt_at, last_attempt_at, rail_code, error_message)
  SELECT l.outbox_id, coalesce(k.instruction_id, r.instruction_id, l.outbox_id::text),
    coalesce(k.participant_id, r.participant_id, ''), r.rail_type, l.reason, l.error_code,
    CASE WHEN w.payload ->> 'amount' ~ '^[0-9]{1,30}([.][0-9]{1,10})?$' THEN (w.payload ->> 'amount')::numeric END,
    left(w.payload ->> 'currency', 20), c.n, c.first_at, c.last_at, said.rail_code, said.error_message
  FROM (
    SELECT u.outbox_id, u.error_code, CASE
      WHEN CASE
        WHEN u.reason IN ('FAILED', 'EXPIRED') THEN last.failed
        WHEN u.reason = 'CONFLICT' THEN EXISTS (
          SELECT FROM {cell}.payment_outbox_contradictions c
          WHERE c.outbox_id = u.outbox_id AND c.attempt_no = (
            SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = u.outbox_id))
        WHEN u.reason = 'TAMPERED' THEN EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = u.outbox_id AND a.result = 'TAMPERED')
        WHEN u.reason = 'UNCLAIMABLE' THEN EXISTS (
          SELECT FROM {cell}.payment_outbox_pending p
          WHERE p.outbox_id = u.outbox_id AND p.next_attempt_at = 'infinity')
        ELSE NOT last.failed END THEN u.reason
      WHEN last.failed THEN 'FAILED'
      ELSE 'OUTCOME_UNKNOWN' END AS reason
    FROM unnest($1, $2, $3) AS u(outbox_id, reason, error_code)
    CROSS JOIN LATERAL (
      SELECT coalesce((
        SELECT a.state = 'FAILED' FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = u.outbox_id AND a.state <> 'LATE_OUTCOME'
        ORDER BY a.attempt_no DESC LIMIT 1), false) AS failed) last) l
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = l.outbox_id
  CROSS JOIN LATERAL (
    (SELECT a.instruction_id, a.participant_id, a.rail_type
    FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id ORDER BY a.attempt_no LIMIT 1)
    UNION ALL
    SELECT p.instruction_id, p.participant_id, p.rail_type FROM {cell}.payment_outbox_pending p
      WHERE p.outbox_id = l.outbox_id
    LIMIT 1) r
  CROSS JOIN LATERAL (
    SELECT coalesce(
      (SELECT a.payload FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = l.outbox_id AND a.payload IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1),
      (SELECT p.payload FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = l.outbox_id),
      (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = l.outbox_id)) AS payload) w
  CROSS JOIN LATERAL (
    SELECT count(*) AS n, min(a.claimed_at) AS first_at, max(a.claimed_at) AS last_at
    FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id AND a.state IN ('DISPATCHING', 'INQUIRING')) c
  LEFT JOIN LATERAL (
    SELECT a.rail_code, a.error_message
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = l.outbox_id AND (a.rail_code IS NOT NULL OR a.error_message IS NOT NULL)
      AND a.result IS NOT NULL AND a.error_code IS DISTINCT FROM 'RESOLVED'
    ORDER BY a.attempt_no DESC LIMIT 1) said ON true
  ORDER BY l.outbox_id
  ON CONFLICT ON CONSTRAINT payment_dead_letters_pk DO UPDATE SET
    reason = CASE
      WHEN d.status NOT IN ('manual_replay', 'resolved')
        AND (d.reason = 'CONFLICT' OR d.reason = 'TAMPERED' AND excluded.reason NOT IN ('FAILED', 'EXPIRED')
          AND excluded.reason <> 'CONFLICT')
        THEN d.reason
      ELSE excluded.reason END,
    error_code = excluded.error_code,
    amount = coalesce(excluded.amount, d.amount),
    currency = coalesce(excluded.currency, d.currency),
    attempts = greatest(excluded.attempts, d.attempts),
    first_attempt_at = least(excluded.first_attempt_at, d.first_attempt_at),
    last_attempt_at = greatest(excluded.last_attempt_at, d.last_attempt_at),
    rail_code = excluded.rail_code,
    error_message = excluded.error_message,
    status = 'pending',
    opened_at = CASE WHEN d.status IN ('manual_replay', 'resolved') THEN excluded.opened_at ELSE d.opened_at END,
    updated_at = excluded.updated_at
  -- What was closed stays closed without one: the participant may have been told to pay anew. The numbers also
  -- show a row that was under way during the close; the time shows one after the archive has lost numbers.
  WHERE d.status NOT IN ('manual_replay', 'resolved') OR excluded.reason = 'UNCLAIMABLE' OR EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = d.outbox_id AND (a.attempt_no > d.closed_after_no OR a.created_at > d.updated_at));
  PERFORM {cell}.notify_outcome(l.outbox_id) FROM unnest($1) AS l(outbox_id);
END
$$;
-- end of open_dead_letters

-- function record_late_outcome
CREATE OR REPLACE FUNCTION {cell}.record_late_outcome(outcome jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  tries_max CONSTANT integer := 64;
  o         {cell}.outbox_outcome := jsonb_populate_record(NULL::{cell}.outbox_outcome, outcome);
  executes  boolean := o.state = 'DISPATCHED';
  reference text COLLATE "C" := {cell}.clean_reference(o.rail_reference);
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
              AND coalesce({cell}.clean_reference(a.rail_reference) = reference, reference IS NULL)
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
              AND {cell}.clean_reference(a.rail_reference) IS NOT DISTINCT FROM reference END)
      THEN
        RETURN 'REPEATED';
      END IF;
      IF refuses AND last.state = 'FAILED'
        AND last.result IN ('REFUSED_FINAL', 'REFUSED') AND last.error_code IS DISTINCT FROM 'RESOLVED'
        AND NOT is_waiting AND NOT doubts AND NOT forgotten
        -- A new reference is stored: the rail may still report an execution under it.
        AND (reference IS NULL OR EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = o.outbox_id AND a.result IN ('REFUSED_FINAL', 'REFUSED')
            AND {cell}.clean_reference(a.rail_reference) = reference AND a.error_code IS DISTINCT FROM 'RESOLVED'))
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
            WHERE a.outbox_id = o.outbox_id AND a.attempt_id <> o.attempt_id
              AND {cell}.clean_reference(a.rail_reference) <> reference
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
          PERFORM {cell}.open_conflict(o.outbox_id, coalesce(o.error_code, o.rail_code));
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
          PERFORM {cell}.open_conflict(o.outbox_id, coalesce(o.error_code, o.rail_code));
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

-- function refused_and_executed
CREATE OR REPLACE FUNCTION {cell}.refused_and_executed(outbox_id uuid, after_no integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH a AS (
      SELECT t.*, {cell}.clean_reference(t.rail_reference) AS reference
      FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = $1
    ),
    -- An operator's evidence is not a statement of the rail, and statements that an operator has
    -- judged do not count again.
    executed AS (
      SELECT a.* FROM a
      WHERE a.attempt_no > {cell}.judged_to($1, false) AND a.error_code IS DISTINCT FROM 'RESOLVED'
        AND (a.state = 'DISPATCHED' OR a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED')
    ),
    refusal AS (
      SELECT a.* FROM a
      WHERE a.attempt_no > {cell}.judged_to($1, true) AND a.result IN ('REFUSED_FINAL', 'REFUSED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED'
    ),
    standing AS (
      SELECT s.* FROM {cell}.standing_sends($1) s
    )
    SELECT EXISTS (
      SELECT FROM executed e
      JOIN refusal r ON r.reference = e.reference
      WHERE greatest(e.attempt_no, r.attempt_no) > $2
        AND NOT EXISTS (
          SELECT FROM standing later
          WHERE NOT later.forgotten
            AND (later.attempt_no > coalesce(r.answers_attempt_no, r.attempt_no)
              OR r.result = 'REFUSED' AND EXISTS (
                SELECT FROM a send
                JOIN a answer ON answer.answers_attempt_no = send.attempt_no
                WHERE send.state = 'DISPATCHING' AND send.attempt_no < later.attempt_no
                  AND answer.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED') AND answer.reference = r.reference)))
        -- A send that a restore forgot, of a claim after the refused one.
        AND NOT EXISTS (SELECT FROM standing later WHERE later.forgotten AND later.claimed_at > r.claimed_at))
    OR NOT {cell}.send_may_be_forgotten($1)
      AND EXISTS (SELECT FROM executed e CROSS JOIN refusal r WHERE greatest(e.attempt_no, r.attempt_no) > $2)
      AND NOT EXISTS (
        SELECT FROM standing s
        WHERE NOT EXISTS (SELECT FROM refusal r WHERE r.state = 'FAILED' AND r.attempt_no > s.attempt_no)));
END
$$;
-- end of refused_and_executed

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
  reference text COLLATE "C" := {cell}.clean_reference(resolve_payment.rail_reference);
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
    OR letter_open AND last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED')
      AND (letter.reason = 'CONFLICT' OR {cell}.unsettled_contradiction(resolve_payment.outbox_id) IS NOT NULL), false)
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
      -- Evidence that says the same as the state of its payment has no row, and is in the log alone.
      IF other IS NULL THEN
        SELECT l.outbox_id INTO other FROM {cell}.payment_operator_log l
        WHERE l.act = 'RESOLVE' AND (l.detail ->> 'rail_reference') COLLATE "C" IN (reference, given)
          AND l.detail ->> 'executed' = 'true' AND l.outbox_id <> resolve_payment.outbox_id
          -- The rail of a payment whose month and dead letter are gone is not known: it counts as the same one.
          AND coalesce(
            (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id LIMIT 1),
            (SELECT d.rail_type FROM {cell}.payment_dead_letters d WHERE d.outbox_id = l.outbox_id), on_rail) = on_rail
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
    'WHERE {cell}.clean_reference(a.rail_reference) IS NOT NULL AND (a.state = ''DISPATCHED'' OR a.result = ''EXECUTED'') '
    'ON CONFLICT DO NOTHING', month);
  GET DIAGNOSTICS added = ROW_COUNT;
  RETURN added;
END
$$;
-- end of retire_references

-- function triage_dead_letter
CREATE OR REPLACE FUNCTION {cell}.triage_dead_letter(outbox_id uuid, status text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter {cell}.payment_dead_letters;
  ended  text;
  waits  boolean;
  forged boolean;
  torn   integer; -- the row of a contradiction that no operator has settled
  says   text; -- what the letter says, where the rows say otherwise
BEGIN
  PERFORM {cell}.require_reason(triage_dead_letter.reason);
  IF triage_dead_letter.status IS NULL OR triage_dead_letter.status NOT IN ('acknowledged', 'escalated', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'status must be acknowledged, escalated or resolved';
  END IF;
  IF triage_dead_letter.status = 'resolved' THEN
    PERFORM {cell}.require_settled_server('closing a dead letter');
  END IF;
  forged := NOT EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = triage_dead_letter.outbox_id)
    AND EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = triage_dead_letter.outbox_id);
  IF NOT forged THEN
    PERFORM {cell}.lock_payment(triage_dead_letter.outbox_id);
  END IF;
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = triage_dead_letter.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'the instruction has no dead letter';
  END IF;
  IF letter.status IN ('manual_replay', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('the dead letter is already closed (%s)', letter.status);
  END IF;
  IF triage_dead_letter.status = 'resolved' THEN
    -- A worker may be about to return the payment to pending; this waits for it.
    PERFORM FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = triage_dead_letter.outbox_id FOR UPDATE;
    waits := FOUND;
    ended := {cell}.put_back_after(triage_dead_letter.outbox_id);
    torn := {cell}.unsettled_contradiction(triage_dead_letter.outbox_id);
    says := CASE
      WHEN letter.reason = 'CONFLICT' OR forged THEN NULL
      WHEN torn IS NOT NULL THEN format('row %s contradicts what was said before', torn)
      WHEN letter.reason NOT IN ('FAILED', 'EXPIRED') THEN NULL
      WHEN ended = 'FAILED' OR ended IS NULL AND NOT waits AND {cell}.left_the_archive(letter.outbox_id) THEN NULL
      ELSE format('the instruction is %s', coalesce(ended, {cell}.payment_outbox_state(letter.outbox_id), 'gone')) END;
  END IF;
  IF triage_dead_letter.status = 'resolved' AND NOT coalesce(
    CASE WHEN forged THEN NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts s
      WHERE s.outbox_id = triage_dead_letter.outbox_id AND s.state <> 'PARKED'
        AND (s.state <> 'DISPATCHING' OR NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts answer
          WHERE answer.outbox_id = s.outbox_id AND answer.answers_attempt_no = s.attempt_no
            AND answer.state = 'PARKED' AND answer.result = 'TAMPERED')))
    ELSE says IS NULL AND CASE letter.reason
      WHEN 'UNCLAIMABLE' THEN ended IN ('DISPATCHED', 'FAILED', 'CANCELLED', 'DISPATCHING', 'INQUIRING')
        -- The row was removed from pending before its first claim.
        OR NOT waits AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = triage_dead_letter.outbox_id)
      WHEN 'TAMPERED' THEN ended = 'DISPATCHED'
      ELSE letter.reason IN ('FAILED', 'EXPIRED') END END, false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be closed by this act', letter.reason) || coalesce(': ' || says, ''),
      HINT = CASE
      WHEN says IS NOT NULL
        THEN 'Its rows do not say that it was not paid. Find out who changed the dead letter (railhead prove run '
          'nothing-lost), and from the rail what became of the payment, then resolve it with that evidence.'
      WHEN forged
        THEN 'The payment was never enqueued here, and by its rows a send of it may have reached the rail. '
        || 'Find out from the rail what became of it, and escalate it: its rows prove nothing.'
      ELSE CASE letter.reason
        WHEN 'UNCLAIMABLE' THEN CASE
          WHEN NOT waits
            THEN 'Its row in pending is missing. Find out from the rail what became of the payment, then resolve it '
              'with that evidence.'
          WHEN ended IS NULL THEN 'It is still pending: replay it, or cancel it if nothing was ever sent.'
          ELSE format('It was put back in pending after row %s, and may have been paid. ', ended)
            || 'Find out from the rail what became of the payment, then resolve it with that evidence, which '
              'removes it from pending.' END
        ELSE 'Find out from the rail what became of the payment, then resolve it with that evidence.' END END;
  END IF;
  IF ended IS NOT NULL OR forged AND triage_dead_letter.status = 'resolved' THEN
    DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = triage_dead_letter.outbox_id;
  END IF;
  PERFORM {cell}.close_letter(triage_dead_letter.outbox_id, triage_dead_letter.status, triage_dead_letter.reason);
  PERFORM {cell}.log_operator_act('TRIAGE', triage_dead_letter.status, triage_dead_letter.outbox_id,
    triage_dead_letter.reason,
    jsonb_strip_nulls(jsonb_build_object('was', letter.status, 'letter', letter.reason, 'put_back_after', ended,
      'never_enqueued', nullif(forged, false))));
  RETURN letter.status;
END
$$;
-- end of triage_dead_letter

-- function unsettled_contradiction
CREATE OR REPLACE FUNCTION {cell}.unsettled_contradiction(outbox_id uuid) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT max(c.attempt_no) FROM {cell}.payment_outbox_contradictions c
    WHERE c.outbox_id = $1 AND NOT EXISTS (
      SELECT FROM {cell}.payment_operator_log l
      WHERE l.outbox_id = c.outbox_id AND l.act = 'RESOLVE'
        -- The clocks of two servers may differ.
        AND (l.acted_at >= c.opened_at - interval '1 minute' OR l.detail ->> 'letter' = 'CONFLICT')));
END
$$;
-- end of unsettled_contradiction

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 68, serves 13'
$$;
-- end of schema_version
