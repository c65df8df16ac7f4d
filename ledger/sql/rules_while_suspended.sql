-- What the profiles of each rail say of keys that sends were made under which the database may have
-- forgotten: a row for each rail while a suspension is open, and none otherwise.
SELECT s.rail_type, s.rules::text
FROM {cell}.rules_while_suspended() s
