-- last_rail_reference(outbox_id uuid) -> text
--   The rail's reference of the payment, from the last answer that accepted it provisionally or
--   reported it as in progress; null if there is none. The reference of another answer may be that
--   of another payment.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor, for the claim of an inquiry; status_of_payments.
CREATE OR REPLACE FUNCTION {cell}.last_rail_reference(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT a.rail_reference
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.rail_reference IS NOT NULL AND a.result IN ({naming_results})
    ORDER BY a.attempt_no DESC
    LIMIT 1);
END
$$;
