-- operator_asked(outbox_id uuid, attempt_no integer) -> boolean
--   Whether the claim with this number is the one inquiry that an operator asked for: the row
--   before it, other than LATE_OUTCOME rows, was written by inquire_payment.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor, for the claim of an inquiry; require_rails_word, resolve_payment.
CREATE OR REPLACE FUNCTION {cell}.operator_asked(outbox_id uuid, attempt_no integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT a.state = 'UNKNOWN' AND a.error_code = 'ASKED' AND a.answers_attempt_no IS NULL
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.attempt_no < $2 AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1), false));
END
$$;
