-- Begins every transaction of an executor; its settings are for this transaction
-- alone, because one of the session leaks to others behind a transaction pooler.
-- Says when it is, and what this session has walked of the due index so far.
--
-- Statistics may be stale when a plan is made and the tables grown when it is
-- used: no statement may ever scan one of them, and to plan for each set of
-- arguments costs more than it can win. None may wait for long: one idle
-- transaction elsewhere must not stop every lane. Just-in-time compilation would
-- cost more than any turn.
--
-- Nor may what a login has set take a guard away: the warning that a commit may not
-- be on its standby has to arrive, and the commit has to be flushed, here and, where
-- there is one, on the synchronous standby. $1 lock_timeout, $2 idle_in_transaction_session_timeout
SELECT clock_timestamp() AS at,
  pg_stat_get_xact_tuples_returned('{cell}.payment_outbox_pending_due'::regclass) AS walked,
  set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true),
  set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
  set_config('plan_cache_mode', 'force_generic_plan', true), set_config('client_min_messages', 'warning', true),
  set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END, true)
