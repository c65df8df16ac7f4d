-- require_rails_word(outbox_id uuid, rail_silent boolean) -> boolean
--   Checks the answer that the rail has to give before an operator's evidence ends a payment that
--   may have been sent as not executed. If the rail answers inquiries, an answer of the last 15
--   minutes is required. An answer that proves that the payment was not executed
--   (inquiry_said_not_executed) is sufficient; one that reports the execution refuses the act; any
--   other answer, and none, needs rail_silent. An instruction that is parked or pending for an
--   inquiry must have been inquired about even then, unless nothing is claimed because its rail is
--   paused or a suspension is open.
-- returns: whether it is resolved without an answer of the rail, although the rail answers inquiries.
-- errors:  RH020 the answer is missing or contradicts the evidence, with the reason.
-- reads:   payment_outbox_attempts, payment_outbox_pending, payment_dead_letters, payment_rails,
--          payment_rail_profiles, payment_outbox_suspensions, and what inquiry_said_not_executed,
--          payment_certainty, pause_of and server_is_settled read.
-- locks:   nothing.   called by: resolve_payment, which holds the keys row.
CREATE OR REPLACE FUNCTION {cell}.require_rails_word(outbox_id uuid, rail_silent boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  last    {cell}.payment_outbox_attempts;
  asked   {cell}.payment_outbox_attempts;
  profile jsonb;
  letter  text;
  sends   record;
  told    record; -- reported sends that a restore forgot
  due_at  timestamptz; -- the due time of the pending row
BEGIN
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT p.profile INTO profile
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = coalesce(
    (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1),
    (SELECT w.rail_type FROM {cell}.payment_outbox_pending w WHERE w.outbox_id = $1));
  IF coalesce((profile #>> '{inquiry,max}')::integer, 0) = 0 THEN
    RETURN false;
  END IF;
  SELECT d.reason INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = $1;
  SELECT s.* INTO sends FROM {cell}.known_sends($1) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends($1) f;
  -- If nothing was sent, or every send was refused, there is nothing to ask, unless the rail has
  -- reported otherwise.
  IF (sends.n + told.n = 0 OR {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'REFUSED')
    AND last.outcome_unknown IS NOT TRUE
    AND letter IS DISTINCT FROM 'CONFLICT' AND NOT {cell}.send_may_be_forgotten($1)
  THEN
    RETURN false;
  END IF;

  -- The latest answer. A reported execution is not superseded by a weaker answer, and counts also
  -- if it was reported for a claim that a restore forgot.
  SELECT a.* INTO asked
  FROM {cell}.payment_outbox_attempts a
  LEFT JOIN {cell}.payment_outbox_attempts q
    ON q.outbox_id = a.outbox_id AND q.attempt_no = a.answers_attempt_no AND q.state = 'INQUIRING'
  WHERE a.outbox_id = $1 AND a.completed_at > clock_timestamp() - interval '15 minutes'
    AND (q.outbox_id IS NOT NULL OR a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL AND a.result = 'EXECUTED')
  ORDER BY a.result IS NOT DISTINCT FROM 'EXECUTED' DESC, a.attempt_no DESC
  LIMIT 1;
  IF asked.result = 'EXECUTED' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the rail reported that it executed the payment (row %s): it can''t be resolved as not executed',
        asked.attempt_no),
      HINT = 'Compare with the rail''s statement. If it has the payment, resolve it as executed, with its reference.';
  END IF;
  IF {cell}.inquiry_said_not_executed($1, profile, sends.first_at, sends.last_at) THEN
    RETURN false;
  END IF;
  IF rail_silent IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = CASE WHEN asked.attempt_no IS NULL
        THEN 'the rail answers inquiries and was not asked within 15 minutes: the payment can''t be resolved as not '
          'executed without its answer'
        WHEN asked.result = 'NOT_SENT'
        THEN format('the inquiry did not reach the rail (row %s, NOT_SENT): it does not prove that the payment was not executed', asked.attempt_no)
        ELSE format('the rail''s answer to an inquiry (row %s, %s) does not prove that the payment was not executed',
          asked.attempt_no, coalesce(asked.result, 'no result')) END,
      HINT = 'Ask it: railhead payment inquire. If no answer proves anything and your evidence is sufficient without '
        'one, use --rail-silent, which is recorded.';
  END IF;
  SELECT p.next_attempt_at INTO due_at FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1;
  IF asked.attempt_no IS NULL AND letter IN ({asked_reasons})
    AND {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'OUTCOME_UNKNOWN'
    AND due_at IS DISTINCT FROM 'infinity' -- which is quarantined
    AND (last.state = 'PARKED' OR {cell}.operator_asked($1, last.attempt_no + 1))
    AND {cell}.pause_of(last.rail_type, (SELECT k.participant_id FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id = $1)) IS NULL
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the rail answers inquiries and was not asked within 15 minutes: whether it would answer is not known',
      HINT = CASE WHEN last.state = 'PARKED' THEN 'Ask it: railhead payment inquire.'
        WHEN due_at > clock_timestamp() + interval '15 minutes'
          THEN 'Its inquiry was postponed: railhead payment send-now makes it due.'
        ELSE 'Its inquiry is pending or in flight: check again, with railhead payment show and railhead status.' END;
  END IF;
  RETURN true;
END
$$;
