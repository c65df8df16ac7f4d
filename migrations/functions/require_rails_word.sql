-- require_rails_word(outbox_id uuid, rail_silent boolean) -> boolean
--   What the rail has to say before an operator's evidence ends as not executed what may
--   have been sent. Where the rail can be asked it wants the answer to an inquiry of the
--   last 15 minutes: one that proves that it was not executed (inquiry_said_not_executed)
--   is enough; one that says executed refuses the act; any other, and none, pass with
--   rail_silent alone. What is parked, or was put out for an inquiry, has to have been asked about
--   by then, unless nothing is claimed: its rail is paused, or a suspension is open.
-- returns: whether it is resolved without the rail's word, which could be asked.
-- errors:  RH020 the word is missing or says otherwise, with the sentence that says so.
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
  told    record; -- of sends that a restore forgot
  due_at  timestamptz; -- of what waits in pending
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
  -- Of what was never sent, or of which every send was refused, there is nothing to ask,
  -- unless the rail said otherwise.
  IF (sends.n + told.n = 0 OR {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'REFUSED') AND last.outcome_unknown IS NOT TRUE
    AND letter IS DISTINCT FROM 'CONFLICT' AND NOT {cell}.send_may_be_forgotten($1)
  THEN
    RETURN false;
  END IF;

  -- The latest answer; but that it was executed is not outlived by one that says less,
  -- and told of a claim that a restore forgot it is the same word.
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
      MESSAGE = format('the rail said that it executed the payment (row %s): it is not resolved as not executed', asked.attempt_no),
      HINT = 'Compare with the rail''s statement. If it has the payment, resolve it as executed, with its reference.';
  END IF;
  IF {cell}.inquiry_said_not_executed($1, profile, sends.first_at, sends.last_at) THEN
    RETURN false;
  END IF;
  IF rail_silent IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = CASE WHEN asked.attempt_no IS NULL
        THEN 'the rail can be asked, and has not been within 15 minutes: it is not resolved as not executed without its word'
        WHEN asked.result = 'NOT_SENT'
        THEN format('the inquiry did not reach the rail (row %s, NOT_SENT): it does not prove that the payment was not executed', asked.attempt_no)
        ELSE format('the rail''s answer to an inquiry (row %s, %s) does not prove that the payment was not executed',
          asked.attempt_no, coalesce(asked.result, 'none came')) END,
      HINT = 'Ask it: railhead payment inquire. If it gives no answer that proves anything, and your evidence is enough without: --rail-silent, which is recorded.';
  END IF;
  SELECT p.next_attempt_at INTO due_at FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1;
  IF asked.attempt_no IS NULL AND letter IN ({asked_reasons}) AND {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'OUTCOME_UNKNOWN'
    AND due_at IS DISTINCT FROM 'infinity' -- which is set aside
    AND (last.state = 'PARKED' OR {cell}.operator_asked($1, last.attempt_no + 1))
    AND {cell}.pause_of(last.rail_type, (SELECT k.participant_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = $1)) IS NULL
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the rail can be asked, and has not been within 15 minutes: whether it is silent is not known',
      HINT = CASE WHEN last.state = 'PARKED' THEN 'Ask it: railhead payment inquire.'
        WHEN due_at > clock_timestamp() + interval '15 minutes' THEN 'Its inquiry was put off: railhead payment send-now has it asked.'
        ELSE 'Its inquiry is on its way: look again in a moment, at railhead payment show and at railhead status.' END;
  END IF;
  RETURN true;
END
$$;
