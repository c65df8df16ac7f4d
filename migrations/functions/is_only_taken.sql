-- is_only_taken(acceptance text, result text) -> boolean
--   Whether a send's own answer that calls it accepted is no last word, by what acceptances meant
--   when the sends were made (acceptance_of_sends): none is, or only one that says executed.
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
