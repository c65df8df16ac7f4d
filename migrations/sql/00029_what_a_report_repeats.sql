-- Migration 29, what a report repeats. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function payment_outbox_differs
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_differs(
  outbox_id uuid, not_before timestamptz, expires_at timestamptz, priority integer, send_once boolean) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  -- Some client libraries truncate nanoseconds to microseconds, and others round them.
  unit  CONSTANT interval := interval '1 microsecond';
  first record;
  once  boolean := (SELECT i.send_once FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = $1);
BEGIN
  -- A replay of a quarantined row is the only one whose entry names no letter. The log keeps it; the
  -- dead letter has another reason once it was opened again.
  IF EXISTS (
    SELECT FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1 AND l.act = 'REPLAY' AND NOT l.detail ? 'letter')
  THEN
    RETURN NULL;
  END IF;
  -- Later rows may hold times that a replay has set.
  SELECT a.next_attempt_at, a.expires_at, a.priority, a.enqueued_at, a.payload IS NOT NULL AS older INTO first
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.enqueued_at IS NOT NULL
  ORDER BY a.attempt_no
  LIMIT 1;
  IF NOT FOUND THEN
    SELECT p.next_attempt_at, p.expires_at, p.priority, p.created_at AS enqueued_at,
      p.payload IS NOT NULL AS older INTO first
    FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = $1;
  END IF;
  -- The due time of a quarantined row is gone.
  IF NOT FOUND OR first.next_attempt_at = 'infinity' THEN
    RETURN NULL;
  END IF;
  -- An instruction that is older than payment_outbox_instructions has no send_once: it is sent as
  -- the profile allows.
  once := coalesce(once, CASE WHEN first.older THEN false END);
  IF once IS NULL THEN
    RETURN NULL;
  END IF;
  -- An operator may have changed the due time before the first claim. The log has the original one.
  first.next_attempt_at := coalesce((
    SELECT (l.detail ->> 'from')::timestamptz
    FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1 AND l.act IN ('SEND_NOW', 'RESCHEDULE') AND l.detail ->> 'rows' = '0'
    ORDER BY l.act_id
    LIMIT 1), first.next_attempt_at);
  RETURN array_remove(ARRAY[
    CASE WHEN greatest($2, first.enqueued_at) NOT BETWEEN first.next_attempt_at - unit AND first.next_attempt_at + unit
      THEN 'not_before' END,
    CASE WHEN ($3 IS NULL) <> (first.expires_at IS NULL)
      OR $3 NOT BETWEEN first.expires_at - unit AND first.expires_at + unit THEN 'expires_at' END,
    CASE WHEN $4 <> first.priority THEN 'priority' END,
    CASE WHEN $5 <> once THEN 'send_once' END], NULL);
END
$$;
-- end of payment_outbox_differs

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

-- function skip_in_order
CREATE OR REPLACE FUNCTION {cell}.skip_in_order(outbox_id uuid, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  number bigint;
  line   {cell}.payment_order_lines;
  last   record;
BEGIN
  PERFORM {cell}.require_reason(skip_in_order.reason);
  PERFORM {cell}.lock_payment(skip_in_order.outbox_id);
  SELECT k.sequence_id INTO number FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = skip_in_order.outbox_id;
  SELECT a.state, a.attempt_no, a.rail_type INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = skip_in_order.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  IF EXISTS (
    SELECT FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = skip_in_order.outbox_id AND l.act = 'SKIP_IN_ORDER'
      AND (l.detail ->> 'attempt_no')::integer = coalesce(last.attempt_no, 0))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction was skipped already, as it stands: it holds nothing back',
      HINT = 'The line goes on with the next turn of a relayer that serves the rail, unless the rail is paused.';
  END IF;
  SELECT h.* INTO line
  FROM {cell}.payment_outbox_keys k
  CROSS JOIN {cell}.payment_rails r
  JOIN {cell}.payment_order_lines h ON h.rail_type = r.rail_type AND h.participant_id = k.participant_id
  WHERE k.outbox_id = skip_in_order.outbox_id AND h.head = k.outbox_id;
  IF NOT FOUND THEN
    -- While no turn advances the line, it does not show that its instruction has ended.
    PERFORM
    FROM {cell}.payment_outbox_keys k
    LEFT JOIN {cell}.payment_outbox_instructions i ON i.outbox_id = k.outbox_id
    JOIN {cell}.payment_rails r ON r.rail_type = coalesce(last.rail_type, i.rail_type)
    JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
    WHERE k.outbox_id = skip_in_order.outbox_id AND coalesce(last.state NOT IN ('DISPATCHING', 'INQUIRING'), true)
      AND coalesce(f.profile -> 'order_participants' ->> k.participant_id, f.profile ->> 'order') = 'STRICT'
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = k.outbox_id)
      AND (EXISTS (
          SELECT FROM {cell}.payment_order_marks m
          WHERE m.rail_type = r.rail_type AND m.participant_id = k.participant_id)
        OR NOT EXISTS (
          SELECT FROM {cell}.payment_order_lines h
          WHERE h.rail_type = r.rail_type AND h.participant_id = k.participant_id));
    IF FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'no turn has advanced the line of the participant since it changed: whether one waits behind the '
          'instruction is not known yet',
        HINT = 'A relayer that serves the rail advances it: resume the rail if it is paused, or start a relayer. Then call again.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction is not the head of a line: none waits behind it because of its order',
      HINT = 'payment show of an instruction that waits names the one before it.';
  END IF;
  IF line.floor < number OR EXISTS (
    SELECT FROM {cell}.payment_order_marks m
    WHERE m.rail_type = line.rail_type AND m.participant_id = line.participant_id AND m.sequence_id < number)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'one with a lower number has returned to pending, and goes before the instruction: it can''t be skipped now',
      HINT = 'Skip it once it is the head again. payment show of an instruction that waits names the one before it.';
  END IF;
  IF EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = skip_in_order.outbox_id)
    OR last.state IN ('DISPATCHING', 'INQUIRING')
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only one that has ended or is parked can be skipped',
        {cell}.payment_outbox_state(skip_in_order.outbox_id)),
      HINT = 'Cancel it, or change its due time with payment reschedule. One that is quarantined is replayed, cancelled '
        'or resolved.';
  END IF;
  PERFORM {cell}.log_operator_act('SKIP_IN_ORDER', {cell}.instruction_of(skip_in_order.outbox_id),
    skip_in_order.outbox_id, skip_in_order.reason,
    jsonb_build_object('sequence_id', number, 'attempt_no', coalesce(last.attempt_no, 0), 'state', last.state,
      'blocked_by', line.blocked_by));
  PERFORM {cell}.note_order_change(skip_in_order.outbox_id, line.rail_type, false);
  RETURN number;
END
$$;
-- end of skip_in_order

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 29, serves 13'
$$;
-- end of schema_version
