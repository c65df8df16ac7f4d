-- append_outbox_row(o outbox_outcome, attempt_id uuid, attempt_no integer, state text,
--                   answers_attempt_no integer, outcome_unknown boolean, result text, rail_reference text) -> void
--   Appends one row with the evidence of the outcome. claimed_at is that of the claim that the row
--   answers, even if a restore forgot the claim. The only error code of a DISPATCHED row is
--   RESOLVED, which distinguishes an operator's evidence from the answer of the rail. A row that
--   ends a pending instruction also holds the columns of the pending row, which the caller deletes
--   afterwards.
-- errors:  23505 if the number is taken: the caller starts again.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_outbox_pending,
--          payment_rails, payment_rail_profiles.
-- writes:  payment_outbox_attempts, payment_order_marks.   locks: the fence's index entry, and what note_order_change locks.
-- called by: record_late_outcome, answer_open_claim, resolve_payment.
CREATE OR REPLACE FUNCTION {cell}.append_outbox_row(
  o {cell}.outbox_outcome, attempt_id uuid, attempt_no integer, state text,
  answers_attempt_no integer, outcome_unknown boolean, result text, rail_reference text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  rail text COLLATE "C";
BEGIN
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, answers_attempt_no, claimed_at, completed_at,
      result, rail_reference, rail_code, code_table,
     error_code, error_message, latency_ms, worker_id, profile_version, render_version, outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  SELECT $2, k.outbox_id, p.participant_id,
    coalesce(
      (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id ORDER BY a.attempt_no
        LIMIT 1),
      (SELECT r.rail_type FROM {cell}.payment_outbox_pending r WHERE r.outbox_id = k.outbox_id)),
    $3, $4::{cell}.outbox_attempt_state, $5,
    coalesce((SELECT a.claimed_at FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id
      AND a.attempt_no = $5), $1.claimed_at),
    clock_timestamp(), $7, $8, $1.rail_code, $1.code_table,
    CASE WHEN $4 <> 'DISPATCHED' OR $1.error_code = 'RESOLVED' THEN $1.error_code END, $1.error_message, $1.latency_ms,
      $1.worker_id,
    $1.profile_version, coalesce($1.render_version, p.render_version), $6, coalesce($1.provisional, false) AND $6,
    p.payload, p.headers, p.priority, p.expires_at, p.created_at, p.next_attempt_at, p.next_action,
    p.first_sent_at, p.last_sent_at, p.send_count, p.inquiry_count
  FROM {cell}.payment_outbox_keys k
  LEFT JOIN {cell}.payment_outbox_pending p ON p.outbox_id = k.outbox_id AND $4 IN ({ended_states}, 'PARKED')
  WHERE k.outbox_id = $1.outbox_id
  RETURNING rail_type INTO rail;
  PERFORM {cell}.note_order_change($1.outbox_id, rail, $4 IN ({waiting_states}));
  PERFORM {cell}.notify_outcome($1.outbox_id) WHERE $4 = 'DISPATCHED';
END
$$;
