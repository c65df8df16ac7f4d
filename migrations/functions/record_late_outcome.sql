-- record_late_outcome(outcome jsonb) -> text
--   The slow path for every outcome whose number is taken, and for every callback. outcome has the
--   fields of outbox_outcome; claim_no is null for a callback. Appends a row at the end, evaluates
--   the evidence, and records what it proves.
-- returns: MINE      the row was written by an earlier try of this call
--          IN        it answered a claim that was still open
--          SETTLED   it was late, and ended or parked the instruction; or the claim was open and
--                    an earlier proof of execution ended it
--          LATE      it was late, is stored, and changed nothing else
--          REPEATED  equal evidence is already stored; nothing was appended
--          CONFLICT  it contradicts recorded evidence; a CONFLICT dead letter is open
--          RETIRED   its month has left the archive; nothing was appended
-- errors:  RH002 for the codes of operators' acts: RESOLVED, and ASKED in what answers no claim.
--          RH010 if outbox_id is unknown, or is of another rail than outcome names (a callback is
--          evidence only of payments of its own rail). RH011 if concurrent writers won every
--          try: call again. RH011 also if a worker has a refusal that may end the payment
--          unexecuted, and no component has compared this start of the server with its memory:
--          nothing is stored; call again once one has.
-- reads:   payment_outbox_keys, payment_outbox_pending, payment_outbox_attempts, payment_dead_letters,
--          and what server_is_settled, refusal_covers_all_sends, standing_sends, refused_and_executed, executed_twice,
--          acceptance_of_sends, is_only_taken, rests_on_acceptance, open_dead_letters and open_conflict read.
-- writes:  payment_outbox_attempts, payment_outbox_pending, payment_dead_letters, payment_outbox_contradictions,
--          payment_order_marks.
-- locks:   the keys row, then the pending row, then the fence's index entries.
--          The locks only reduce retries: the index fences, and a lost race starts again.
-- called by: executor, record_callback.
CREATE OR REPLACE FUNCTION {cell}.record_late_outcome(outcome jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  tries_max CONSTANT integer := 64;
  o         {cell}.outbox_outcome := jsonb_populate_record(NULL::{cell}.outbox_outcome, outcome);
  executes  boolean := o.state = 'DISPATCHED';
  reference text COLLATE "C" := {cell}.clean_reference(o.rail_reference);
  refuses   boolean := o.result IN ({refusing_results});
  -- A refusal after which the key is not sent again (payment.CodeNewIDNeeded, CodeBusinessRefused).
  spent     boolean := o.result IN ({for_now_results})
    AND coalesce(o.error_code IN ({spent_codes}), false);
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
  denies    boolean := coalesce(o.result IN ({send_denying_results}), false);
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
        AND a.state IN ({claim_states}));
    forgotten := o.claim_no IS NOT NULL AND claim_no IS NULL;
    of_send := o.claim_no IS NOT NULL AND (forgotten OR EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts s
      WHERE s.outbox_id = o.outbox_id AND s.attempt_no = claim_no AND s.state = 'DISPATCHING'));
    -- The reaper found the worker of the claim dead: the worker may have sent.
    IF forgotten AND o.state = 'ZOMBIE_REQUEUE' THEN
      o.state := 'UNKNOWN';
      weight := 'UNKNOWN';
    END IF;
    is_claimed := coalesce(last.state IN ({claim_states}), false);
    -- The acceptance of a send is final only by every profile under which the instruction was sent,
    -- as far as they are known by now. It does not reopen an instruction that has ended.
    -- answer_open_claim implements the same rule.
    IF executes AND of_send AND o.counts_send AND NOT (is_claimed AND claim_no = last.attempt_no)
      AND (is_waiting OR coalesce(last.state NOT IN ({ended_states}), true))
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
      AND coalesce(last.state IN ({waiting_states}), true) AND NOT EXISTS (
        SELECT FROM (
          SELECT a.state FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = o.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) l
        WHERE l.state IN ({waiting_states})
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
        AND last.result IN ({refusing_results}) AND last.error_code IS DISTINCT FROM 'RESOLVED'
        AND NOT is_waiting AND NOT doubts AND NOT forgotten
        -- A new reference is stored: the rail may still report an execution under it.
        AND (reference IS NULL OR EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = o.outbox_id AND a.result IN ({refusing_results})
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
      ELSIF last.state IN ({ended_states}) AND NOT is_waiting THEN
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
          OR doubts AND NOT counts AND last.state IN ({unpaid_states})
            AND (claim_no IS NULL
              OR last.result IS DISTINCT FROM 'REFUSED' OR last.error_code IS NOT DISTINCT FROM 'RESOLVED')
          OR counts AND last.state IN ({unpaid_states})
            AND (claim_no IS NULL OR last.result IS NULL OR last.result NOT IN ({refusing_results}))
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
          WHERE d.outbox_id = o.outbox_id AND d.reason <> 'TAMPERED' AND d.status NOT IN ({closed_letters});
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
        tells_of_send := coalesce(forgotten AND (o.counts_send OR doubts AND o.result IN ({inquiry_results})), false);
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
