-- The rules about keys in the profiles of each rail under which sends were made that the database
-- may have forgotten: one row for each rail while a suspension is open, and none otherwise.
SELECT s.rail_type, s.rules::text
FROM {cell}.rules_while_suspended() s
