-- acceptance_of_sends(outbox_id uuid) -> text
--   The weakest meaning that an accepted send of the instruction has in the profiles, before the
--   one in force, under which it was sent: PROVISIONAL, BY_ANSWER or FINAL.
-- reads:   what rules_of_sends reads.   locks: nothing.
-- called by: record_late_outcome, answer_open_claim, rests_on_acceptance.
CREATE OR REPLACE FUNCTION {cell}.acceptance_of_sends(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT CASE
      WHEN rules.rules @> '[{"acceptance": "PROVISIONAL"}]' THEN 'PROVISIONAL'
      WHEN rules.rules @> '[{"acceptance": "BY_ANSWER"}]' THEN 'BY_ANSWER'
      ELSE 'FINAL' END
    FROM (SELECT {cell}.rules_of_sends($1) AS rules) rules);
END
$$;
