-- Figures of the server. A partition that never held a row has no page. The last two columns are
-- the bounds of the archive's partitions. The ids of transactions and of multixacts end 2^31 after
-- the oldest ones that some database of the server has not frozen: vacuum has to free them in all. An instruction that expires soon counts once it has been
-- pending for half a minute, so that callers which give every payment one minute to live do not
-- raise an alert with each. Rows that a dump of another server brought, with numbers that this one
-- has yet to reach, are held by no transaction, and do not count as held.
-- $1 the most instructions that expire soon to read
SELECT clock_timestamp() AS now,
  pg_database_size(current_database()) AS database_bytes,
  pg_stat_get_live_tuples('{cell}.payment_outbox_pending'::regclass) AS pending_live,
  pg_stat_get_dead_tuples('{cell}.payment_outbox_pending'::regclass) AS pending_dead,
  (SELECT count(*)
    FROM (
      SELECT e.created_at
      FROM {cell}.payment_rails r
      CROSS JOIN LATERAL (
        SELECT p.created_at FROM {cell}.payment_outbox_pending p
        WHERE p.rail_type = r.rail_type AND p.expires_at <= statement_timestamp() + interval '15 minutes'
          AND NOT p.outcome_unknown
          AND p.next_attempt_at < 'infinity'
        LIMIT $1) e
      LIMIT $1) w
    WHERE w.created_at <= statement_timestamp() - interval '30 seconds') AS expiring_soon,
  coalesce((
    SELECT sum(CASE WHEN pg_relation_size(c.oid) = 0 THEN 0
      ELSE greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 1) END)
    FROM pg_partitioned_table t
    JOIN pg_class c ON c.oid = t.partdefid
    WHERE t.partrelid IN ('{cell}.payment_outbox_attempts'::regclass, '{cell}.payment_outbox_instructions'::regclass)),
      0)::bigint AS default_rows,
  EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL) AS suspended,
  NOT {cell}.map_is_confirmed() AS unconfirmed,
  {cell}.untaken_buckets() AS untaken,
  coalesce((
    SELECT (extract(epoch FROM clock_timestamp() - a.created_at) * 1000)::bigint
    FROM {cell}.payment_outbox_attempts a
    WHERE a.state NOT IN ({claim_states}) AND a.xact >= pg_snapshot_xmin(pg_current_snapshot())
      AND a.xact < pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY a.xact
    LIMIT 1), 0) AS events_held_ms,
  (SELECT max(age(d.datfrozenxid)) / 2147483648.0::float8 FROM pg_database d) AS transaction_ids,
  (SELECT max(mxid_age(d.datminmxid)) / 2147483648.0::float8 FROM pg_database d) AS multixact_ids,
  ARRAY(
    SELECT pg_get_expr(c.relpartbound, c.oid)
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = '{cell}.payment_outbox_attempts'::regclass) AS attempts,
  ARRAY(
    SELECT pg_get_expr(c.relpartbound, c.oid)
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = '{cell}.payment_outbox_instructions'::regclass) AS instructions
