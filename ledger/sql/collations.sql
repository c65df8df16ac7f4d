-- An index on the keys of the cell that sorts text by a collation other than its bytes, if there is
-- one. Only tables that determine which payments are made, and how often, are checked; the proof
-- "guards" checks all. It is executed on each new connection.
SELECT x.indexrelid::regclass::text AS index, t.relname::text AS table, o.id::regcollation::text AS collation
FROM pg_catalog.pg_class t
JOIN pg_catalog.pg_index x ON x.indrelid = t.oid
CROSS JOIN LATERAL unnest(x.indcollation::oid[]) AS o (id)
WHERE t.relnamespace = to_regnamespace('{cell}')
  AND t.relname IN ('payment_outbox_keys', 'payment_outbox_pending', 'participant_outbox_sequences',
    'payment_outbox_attempts',
    'payment_dead_letters', 'payment_rails', 'payment_rail_profiles', 'payment_paused_participants',
    'payment_closed_gates', 'payment_accepted_timelines')
  AND o.id NOT IN (0, 'pg_catalog."C"'::regcollation)
ORDER BY x.indexrelid
LIMIT 1
