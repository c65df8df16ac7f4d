-- Begins every transaction of an executor. Its settings are local to the transaction, because a
-- session setting would leak to other clients of a transaction pooler. Returns the current time,
-- and the number of entries of the due index that this session has read so far.
--
-- A plan may be made with outdated statistics and used after the tables have grown. No statement
-- may ever scan one of them, and planning each statement for its arguments costs more than it can
-- save. No statement may wait for long either: an idle transaction of another session must not stop
-- every lane. Just-in-time compilation would take longer than any turn.
--
-- Settings of the login must not disable a guard. The warning that a commit may not be on the
-- standby has to reach the client, and the commit has to be flushed, here and, if there is one, on
-- the synchronous standby. $1 lock_timeout, $2 idle_in_transaction_session_timeout
SELECT clock_timestamp() AS at,
  pg_stat_get_xact_tuples_returned('{cell}.payment_outbox_pending_due'::regclass) AS walked,
  set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true),
  set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
  set_config('plan_cache_mode', 'force_generic_plan', true), set_config('client_min_messages', 'warning', true),
  set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
    ELSE current_setting('synchronous_commit') END, true)
