-- The place from which a reader begins to follow the archive. $1 the time from which to begin, or
-- null: from now on
SELECT s.system_identifier::text, coalesce(CASE WHEN $1::timestamptz IS NULL THEN n.xact
  ELSE {cell}.outcome_feed_since($1) END, '0')::text AS xact,
  CASE WHEN $1::timestamptz IS NULL THEN n.outbox_id END AS outbox_id, CASE WHEN $1::timestamptz IS NULL
    THEN n.attempt_no END AS attempt_no,
  CASE WHEN $1::timestamptz IS NULL THEN n.attempt_id END AS attempt_id
FROM pg_control_system() s
CROSS JOIN {cell}.outcome_newest() n
