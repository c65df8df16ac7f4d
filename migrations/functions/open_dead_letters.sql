-- open_dead_letters(outbox_ids uuid[], reasons text[], error_codes text[]) -> void
--   Opens the dead letter of each instruction, or reopens it with the new reason: one that is closed only
--   if the instruction has a row that is newer than the close, or has to be quarantined. A letter that
--   is already open keeps its opened_at. An open CONFLICT keeps its reason, because an operator has to
--   compare the contradiction whatever came later. So does TAMPERED, if the row is then
--   quarantined, or was inquired about and is still unknown. A forged instruction, which was never
--   registered, gets a letter too, under its outbox_id if none of its rows names an instruction.
--
--   A reason is taken only where the rows say the same: FAILED and EXPIRED, by which an operator may have it sent
--   again, where the last row is FAILED; CONFLICT where the last row contradicts earlier ones (open_conflict);
--   TAMPERED where some row has that result; UNCLAIMABLE where the pending row is quarantined, which is never due.
--   For any other the letter says FAILED if the last row is FAILED, and else OUTCOME_UNKNOWN. Components open letters
--   by this function alone, with the rights of the owner; they can't write into one.
--
--   Amount, attempts and the last answer of the rail are copied from the rows, which leave the
--   archive before the letter does. Callers that wait for the outcome are notified.
-- reads:   payment_outbox_keys, payment_outbox_instructions, payment_outbox_attempts, payment_outbox_pending,
--          payment_outbox_contradictions.
-- writes:  payment_dead_letters.   locks: the letters' rows, in the order of outbox_id.
-- called by: executor (record, set_aside, expire), record_late_outcome, answer_open_claim, resolve_payment,
--            open_conflict.
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
        WHEN u.reason IN ({unpaid_reasons}) THEN last.failed
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
    FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id AND a.state IN ({claim_states})) c
  LEFT JOIN LATERAL (
    SELECT a.rail_code, a.error_message
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = l.outbox_id AND (a.rail_code IS NOT NULL OR a.error_message IS NOT NULL)
      AND a.result IS NOT NULL AND a.error_code IS DISTINCT FROM 'RESOLVED'
    ORDER BY a.attempt_no DESC LIMIT 1) said ON true
  ORDER BY l.outbox_id
  ON CONFLICT ON CONSTRAINT payment_dead_letters_pk DO UPDATE SET
    reason = CASE
      WHEN d.status NOT IN ({closed_letters})
        AND (d.reason = 'CONFLICT' OR d.reason = 'TAMPERED' AND excluded.reason NOT IN ({unpaid_reasons})
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
    opened_at = CASE WHEN d.status IN ({closed_letters}) THEN excluded.opened_at ELSE d.opened_at END,
    updated_at = excluded.updated_at
  -- What was closed stays closed without one: the participant may have been told to pay anew. The numbers also
  -- show a row that was under way during the close; the time shows one after the archive has lost numbers.
  WHERE d.status NOT IN ({closed_letters}) OR excluded.reason = 'UNCLAIMABLE' OR EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = d.outbox_id AND (a.attempt_no > d.closed_after_no OR a.created_at > d.updated_at));
  PERFORM {cell}.notify_outcome(l.outbox_id) FROM unnest($1) AS l(outbox_id);
END
$$;
