-- is_only_taken(acceptance text, result text) -> boolean
--   Whether the answer of a send that reports it as accepted is not final, by the meaning that
--   acceptances had when the sends were made (acceptance_of_sends): no such answer is final, or
--   only one with the result EXECUTED is.
-- reads, writes, locks: nothing.   called by: record_late_outcome, answer_open_claim, rests_on_acceptance.
CREATE OR REPLACE FUNCTION {cell}.is_only_taken(acceptance text, result text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE $1
    WHEN 'PROVISIONAL' THEN true
    WHEN 'BY_ANSWER' THEN $2 IS NOT DISTINCT FROM 'ACCEPTED'
    ELSE false END
$$;
