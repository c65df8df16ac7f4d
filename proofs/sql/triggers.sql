-- The triggers that refuse changes or propagate them, on every table that must have them and on
-- each partition separately (a trigger of the parent does not fire for a statement that names the
-- partition), enabled in every replication role. tgtype is a set: ROW 1, BEFORE 2, INSERT 4, DELETE
-- 8, UPDATE 16, TRUNCATE 32.
WITH partitions AS (
  SELECT c.relname::text AS name, p.relname::text AS parent
  FROM pg_catalog.pg_inherits i
  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
  WHERE i.inhparent IN (to_regclass('{cell}.payment_outbox_attempts'),
    to_regclass('{cell}.payment_outbox_instructions'))
),
wanted (relation, trigger, type, function, enabled, conditional) AS (
  VALUES
    ('payment_outbox_attempts', 'payment_outbox_attempts_append_only', 58, 'refuse_change', 'A', false),
    ('payment_outbox_attempts', 'payment_outbox_attempts_append_only_rows', 27, 'refuse_change', 'A', false),
    ('payment_outbox_attempts', 'payment_outbox_attempts_acts', 7, 'refuse_unlogged_act', 'A', true),
    ('payment_outbox_instructions', 'payment_outbox_instructions_append_only', 58, 'refuse_change', 'A', false),
    ('payment_outbox_instructions', 'payment_outbox_instructions_append_only_rows', 27, 'refuse_change', 'A', false),
    ('payment_outbox_keys', 'payment_outbox_keys_append_only', 58, 'refuse_change', 'A', false),
    ('payment_rail_profiles', 'payment_rail_profiles_append_only', 58, 'refuse_change', 'A', false),
    ('payment_operator_log', 'payment_operator_log_append_only', 58, 'refuse_change', 'A', false),
    ('payment_accepted_timelines', 'payment_accepted_timelines_append_only', 58, 'refuse_change', 'A', false),
    ('payment_retired_references', 'payment_retired_references_append_only', 58, 'refuse_change', 'A', false),
    ('payment_api_calls', 'payment_api_calls_append_only', 58, 'refuse_change', 'A', false),
    ('payment_outbox_contradictions', 'payment_outbox_contradictions_append_only', 58, 'refuse_change', 'A', false),
    ('payment_cells', 'payment_cells_append_only', 58, 'refuse_change', 'A', false),
    ('payment_cell_changes', 'payment_cell_changes_append_only', 58, 'refuse_change', 'A', false),
    ('payment_cell_checks', 'payment_cell_checks_append_only', 58, 'refuse_change', 'A', false),
    ('payment_cell_checks', 'payment_cell_checks_rules', 4, 'refresh_outbox_rules', 'A', false),
    ('payment_cell_servers', 'payment_cell_servers_append_only', 58, 'refuse_change', 'A', false),
    ('payment_outbox_suspensions', 'payment_outbox_suspensions_rules', 21, 'doubt_map', 'A', true),
    ('payment_buckets', 'payment_buckets_kept', 42, 'refuse_change', 'A', false),
    ('payment_buckets', 'payment_buckets_rules', 16, 'refresh_outbox_rules', 'A', false),
    ('payment_buckets', 'payment_buckets_keep_out', 19, 'keep_out_bucket', 'A', true),
    ('payment_buckets', 'payment_buckets_put_in', 17, 'put_in_participants', 'A', true),
    ('payment_bucket_moves', 'payment_bucket_moves_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_packed_participants', 'payment_packed_participants_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_arrivals', 'payment_arrivals_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_arrived_participants', 'payment_arrived_participants_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_arrived_keys', 'payment_arrived_keys_kept', 27, 'keep_arrived_key', 'A', false),
    ('payment_arrived_keys', 'payment_arrived_keys_no_truncate', 34, 'refuse_change', 'A', false),
    ('participant_outbox_sequences', 'participant_outbox_sequences_bucket', 5, 'refuse_foreign_participant', 'A', false),
    ('payment_api_tokens', 'payment_api_tokens_kept', 19, 'keep_api_token', 'A', false),
    ('payment_api_tokens', 'payment_api_tokens_permanent', 42, 'refuse_change', 'A', false),
    ('payment_api_uses', 'payment_api_uses_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_outbox_suspensions', 'payment_outbox_suspensions_kept', 42, 'refuse_change', 'A', false),
    ('payment_outbox_pending', 'payment_outbox_pending_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_outbox_pending', 'payment_outbox_pending_sticky', 19, 'keep_outcome_unknown', 'A', true),
    ('payment_outbox_pending', 'payment_outbox_pending_notify', 4, 'notify_outbox_pending', 'O', true),
    ('payment_outbox_settings', 'payment_outbox_settings_rules', 60, 'refresh_outbox_rules', 'A', false),
    ('payment_outbox_settings', 'payment_outbox_settings_namespace', 19, 'keep_namespace', 'A', true),
    ('payment_outbox_settings', 'payment_outbox_settings_numbered', 19, 'number_time_budget', 'A', false),
    ('payment_outbox_settings', 'payment_outbox_settings_keeps_budget', 17, 'keep_time_budget', 'A', false),
    ('payment_rails', 'payment_rails_keeps_budget', 21, 'keep_time_budget', 'A', false),
    ('payment_outbox_settings', 'payment_outbox_settings_kept', 42, 'refuse_change', 'A', false),
    ('payment_forbidden_keys', 'payment_forbidden_keys_rules', 60, 'refresh_outbox_rules', 'A', false),
    ('payment_currencies', 'payment_currencies_rules', 60, 'refresh_outbox_rules', 'A', false),
    ('payment_closed_gates', 'payment_closed_gates_rules', 60, 'refresh_outbox_rules', 'A', false),
    ('payment_rails', 'payment_rails_rules', 60, 'refresh_outbox_rules', 'A', false),
    ('participant_outbox_sequences', 'participant_outbox_sequences_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_outbox_claims', 'payment_outbox_claims_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_dead_letters', 'payment_dead_letters_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_order_lines', 'payment_order_lines_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_order_marks', 'payment_order_marks_no_truncate', 34, 'refuse_change', 'A', false),
    ('payment_dead_letters', 'payment_dead_letters_kept_open', 19, 'keep_letter_open', 'A', true)
  UNION ALL
  SELECT p.name, p.parent || t.trigger, t.type, 'refuse_change', 'A', false
  FROM partitions p
  CROSS JOIN (VALUES
    ('_append_only', 58),
    ('_append_only_rows', 27)) t (trigger, type)
  UNION ALL
  SELECT p.name, 'payment_outbox_attempts_acts', 7, 'refuse_unlogged_act', 'A', true
  FROM partitions p WHERE p.parent = 'payment_outbox_attempts'
),
live AS (
  SELECT c.relname::text AS relation, g.tgname::text AS trigger, g.tgtype::integer AS type,
    g.tgenabled::text AS enabled, g.tgqual IS NOT NULL AS conditional,
    f.proname::text AS function, f.pronamespace = c.relnamespace AS here
  FROM pg_catalog.pg_trigger g
  JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid AND c.relnamespace = to_regnamespace('{cell}')
  JOIN pg_catalog.pg_proc f ON f.oid = g.tgfoid
  WHERE NOT g.tgisinternal
)
SELECT 'seen' AS what, format('%s triggers on %s tables, partitions of the archive %s', count(*),
  count(DISTINCT l.relation), (SELECT count(*) FROM partitions)) AS line,
  count(*) AS n
FROM live l
UNION ALL
SELECT 'offence', format('%s has no trigger %s', w.relation, w.trigger), 1
FROM wanted w
WHERE NOT EXISTS (SELECT FROM live l WHERE l.relation = w.relation AND l.trigger = w.trigger)
UNION ALL
SELECT 'offence', format('trigger %s of %s is %s, not ENABLE ALWAYS', l.trigger, l.relation,
  CASE l.enabled WHEN 'D' THEN 'disabled' WHEN 'R' THEN 'enabled for replicas only'
    ELSE 'skipped when session_replication_role is replica' END), 1
FROM wanted w JOIN live l ON l.relation = w.relation AND l.trigger = w.trigger
WHERE w.enabled = 'A' AND l.enabled <> 'A'
UNION ALL
SELECT 'offence', format('trigger %s of %s is not enabled', l.trigger, l.relation), 1
FROM wanted w JOIN live l ON l.relation = w.relation AND l.trigger = w.trigger
WHERE w.enabled = 'O' AND l.enabled NOT IN ('O', 'A')
UNION ALL
SELECT 'offence', format('trigger %s of %s fires for other events than it should, or calls another function (%s)',
  l.trigger, l.relation, l.function), 1
FROM wanted w JOIN live l ON l.relation = w.relation AND l.trigger = w.trigger
WHERE l.type <> w.type OR l.function <> w.function OR NOT l.here
UNION ALL
SELECT 'offence', format('trigger %s of %s has %s', l.trigger, l.relation,
  CASE WHEN l.conditional THEN 'a condition: it does not always fire' ELSE 'lost its condition' END), 1
FROM wanted w JOIN live l ON l.relation = w.relation AND l.trigger = w.trigger
WHERE l.conditional <> w.conditional
UNION ALL
SELECT 'offence', format('trigger %s of %s is not part of the schema', l.trigger, l.relation), 1
FROM live l
WHERE NOT EXISTS (SELECT FROM wanted w WHERE w.relation = l.relation AND w.trigger = l.trigger)
ORDER BY 1, 2
