-- prune(what text, before timestamptz, reason text, after text, batch integer, dry_run boolean)
--   -> (seen integer, pruned integer, kept_open integer, kept_recent integer, kept_needed integer, next_key text)
--   Removes, of the next batch rows of what after the key after (null: from the start), those that
--   nothing needs any more. what is dead-letters or heartbeats. next_key is the key after which the
--   following call continues; null: the end was reached. A call is one transaction, and logs what it
--   removed. With dry_run it removes and logs nothing, and counts what it would remove.
--
--   A dead letter is removed if it was closed before the time, and nothing that is decided or shown of
--   the payment depends on it. Of an instruction that is in the archive, that is so once it is
--   DISPATCHED or CANCELLED. The letter of a FAILED one shows that an operator handled the failure,
--   which is proven, and that it is not to be replayed. One of reason UNCLAIMABLE stays too: no row of
--   the archive shows that the instruction was quarantined, and why. A letter also stays while its
--   instruction is in pending or is not in the registry, and while no row has its payload, because a
--   letter that is opened again gets the amount from there. If the month has left the archive,
--   nothing opens a letter again, and a closed one is removed whatever its reason.
--
--   A heartbeat is removed if its last tick was before the time, by the rule by which the reaper
--   forgets: not while a claim names it, and never the last relayer, nor the last component that vouched for a
--   start of the server, by which the cell is settled.
-- errors:  RH002 without a reason, a time or a known what, if the time is in the future or within 7
--          days, or if batch is not 1 to 10,000; RH020 if the server is not settled, because rows show
--          what ran and was decided before it went back; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_outbox_pending, payment_outbox_instructions,
--          payment_outbox_claims, and what require_settled_server and left_the_archive read.
-- writes:  payment_dead_letters or outbox_heartbeats, payment_operator_log.
-- locks:   an advisory lock, so that calls follow each other; then the rows, without waiting: one that
--          another transaction has locked stays, and is counted as needed.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.prune(
  what text, before timestamptz, reason text, after text, batch integer, dry_run boolean)
RETURNS TABLE (seen integer, pruned integer, kept_open integer, kept_recent integer, kept_needed integer, next_key text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET jit = off
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
#variable_conflict use_column
DECLARE
  floor_age CONSTANT interval := '7 days';
  batch_max CONSTANT integer := 10000;
  chosen    uuid[];
  gone      text[];
BEGIN
  PERFORM {cell}.require_reason($3);
  IF $1 IN ('attempts', 'archive', 'instructions', 'keys', 'operator-log') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('%s: the archive is append-only, and nothing in it is pruned', $1),
      HINT = 'Detach the partitions of a month, as docs/operations.md says. The registry and the operator log stay.';
  END IF;
  IF $1 IS NULL OR $1 NOT IN ('dead-letters', 'heartbeats') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'dead-letters and heartbeats can be pruned, and nothing else';
  END IF;
  IF $2 IS NULL OR NOT isfinite($2) OR $2 > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is missing, infinite or in the future',
      HINT = 'Give a time that is more than 7 days ago.';
  END IF;
  IF $2 > clock_timestamp() - floor_age THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is within the last 7 days',
      HINT = 'What was closed in the last 7 days stays for those who hand over, and for the next reconciliation.';
  END IF;
  IF $5 IS NULL OR $5 NOT BETWEEN 1 AND batch_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = format('a batch has 1 to %s rows', batch_max);
  END IF;
  PERFORM {cell}.require_settled_server('pruning');
  PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.prune', 0));

  IF $1 = 'heartbeats' THEN
    SELECT coalesce(array_agg(b.name), '{}'), count(*),
      count(*) FILTER (WHERE b.last_tick_at >= $2)
    INTO gone, seen, kept_recent
    FROM (
      SELECT h.name, h.last_tick_at FROM {cell}.outbox_heartbeats h
      WHERE h.name > coalesce($4, '') COLLATE "C"
      ORDER BY h.name
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := gone[seen];
    END IF;
    SELECT coalesce(array_agg(o.name), '{}') INTO gone
    FROM (
      SELECT h.name
      FROM {cell}.outbox_heartbeats h
      WHERE h.name = ANY (gone) AND h.last_tick_at < $2
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_claims f WHERE f.worker_id = h.name)
        AND (h.kind <> 'relayer' OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind = 'relayer' AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name) AND n.vouched >= h.vouched))
        AND (h.kind NOT IN ('relayer', 'reaper') OR NOT h.vouched OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind IN ('relayer', 'reaper') AND n.vouched AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name)
            AND n.server_started_at >= h.server_started_at))
      ORDER BY h.name
      FOR UPDATE OF h SKIP LOCKED) o;
    pruned := cardinality(gone);
    kept_open := 0;
    kept_needed := seen - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.outbox_heartbeats h WHERE h.name = ANY (gone) AND h.last_tick_at < $2;
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  ELSE
    SELECT coalesce(array_agg(b.outbox_id), '{}'), count(*), count(*) FILTER (WHERE NOT b.closed),
      count(*) FILTER (WHERE b.closed AND b.updated_at >= $2)
    INTO chosen, seen, kept_open, kept_recent
    FROM (
      SELECT d.outbox_id, d.status IN ({closed_letters}) AS closed, d.updated_at
      FROM {cell}.payment_dead_letters d
      WHERE $4 IS NULL OR d.outbox_id > $4::uuid
      ORDER BY d.outbox_id
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := chosen[seen]::text;
    END IF;
    -- The lock comes before the row is judged: open_dead_letters, which opens it again, takes it too.
    SELECT coalesce(array_agg(o.outbox_id), '{}') INTO chosen
    FROM (
      SELECT d.outbox_id
      FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = ANY (chosen) AND d.status IN ({closed_letters}) AND d.updated_at < $2
      ORDER BY d.outbox_id
      FOR UPDATE SKIP LOCKED) o;
    SELECT coalesce(array_agg(d.outbox_id), '{}') INTO chosen
    FROM {cell}.payment_dead_letters d
    LEFT JOIN LATERAL (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = d.outbox_id AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1) last ON true
    WHERE d.outbox_id = ANY (chosen)
      AND EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = d.outbox_id)
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = d.outbox_id)
      AND CASE
        WHEN last.state IS NOT NULL THEN last.state IN ({ended_states}) AND last.state <> 'FAILED'
          AND d.reason <> 'UNCLAIMABLE'
          AND (EXISTS (SELECT FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = d.outbox_id)
            OR EXISTS (SELECT FROM {cell}.payment_outbox_attempts a
              WHERE a.outbox_id = d.outbox_id AND a.payload IS NOT NULL))
        ELSE {cell}.left_the_archive(d.outbox_id) END;
    pruned := cardinality(chosen);
    kept_needed := seen - kept_open - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.payment_dead_letters d WHERE d.outbox_id = ANY (chosen);
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  END IF;
  IF dry_run IS NOT TRUE AND pruned > 0 THEN
    PERFORM {cell}.log_operator_act('PRUNE', $1, NULL, $3,
      jsonb_build_object('before', $2, 'pruned', pruned, 'seen', seen,
        'removed', CASE $1 WHEN 'heartbeats' THEN to_jsonb(gone) ELSE to_jsonb(chosen) END));
  END IF;
  RETURN NEXT;
END
$$;
