-- note_event_deliveries(endpoint_id text, worker_id text, epoch bigint, lease_ms bigint,
--     place_system text, place_xact xid8, place_outbox_id uuid, place_attempt_no integer, place_attempt_id uuid,
--     done_outbox_ids uuid[], done_attempt_nos integer[], outbox_ids uuid[], attempt_nos integer[],
--     attempt_ids uuid[], event_types text[],
--     created_ats timestamptz[], tries integer[], wait_ms bigint[], statuses text[], taken boolean, again boolean,
--     notes bigint) -> boolean
--   Notes the deliveries of the worker that has the lease of an endpoint: the new cursor
--   (place_system null: unchanged), the events that are done (done_*), and the events to retry,
--   each with its wait (null: until an operator asks). An event that is already to be retried is
--   changed only by another try. taken: the endpoint accepted an event. again: all events to retry
--   become due now with the backoff of a first failure, except those that need an operator. The
--   lease is extended by lease_ms. Returns false, and notes nothing, if another worker has the
--   lease, or if the row has changed since event_deliveries read it (notes), as after a failover.
-- errors:  RH005 more than 10,000 events. 55P03 after 5 s of waiting for a lock.
-- writes:  payment_event_endpoints, payment_event_retries.   locks: the endpoint's row.
-- called by: events.
CREATE OR REPLACE FUNCTION {cell}.note_event_deliveries(endpoint_id text, worker_id text, epoch bigint, lease_ms bigint,
  place_system text, place_xact xid8, place_outbox_id uuid, place_attempt_no integer, place_attempt_id uuid,
  done_outbox_ids uuid[], done_attempt_nos integer[], outbox_ids uuid[], attempt_nos integer[], attempt_ids uuid[],
  event_types text[], created_ats timestamptz[], tries integer[], wait_ms bigint[], statuses text[], taken boolean,
  again boolean, notes bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  now_at CONSTANT timestamptz := clock_timestamp();
BEGIN
  IF cardinality($10) + cardinality($12) > 10000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'more than 10000 events are noted at once', HINT = 'Note fewer.';
  END IF;
  UPDATE {cell}.payment_event_endpoints e
  SET notes = e.notes + 1, lease_until = now_at + least($4, 600000) * interval '1 ms', delivered_at = CASE WHEN $20
    THEN now_at ELSE e.delivered_at END,
    place_system = coalesce($5, e.place_system),
    place_xact = CASE WHEN $5 IS NULL THEN e.place_xact ELSE $6 END,
    place_outbox_id = CASE WHEN $5 IS NULL THEN e.place_outbox_id ELSE $7 END,
    place_attempt_no = CASE WHEN $5 IS NULL THEN e.place_attempt_no ELSE $8 END,
    place_attempt_id = CASE WHEN $5 IS NULL THEN e.place_attempt_id ELSE $9 END
  WHERE e.endpoint_id = $1 AND e.worker_id = $2 AND e.epoch = $3 AND e.notes = $22;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM {cell}.payment_event_retries r
  USING unnest($10, $11) AS d(outbox_id, attempt_no)
  WHERE r.endpoint_id = $1 AND r.outbox_id = d.outbox_id AND r.attempt_no = d.attempt_no;
  INSERT INTO {cell}.payment_event_retries AS r
    (endpoint_id, outbox_id, attempt_no, attempt_id, event_type, created_at, tries, next_at, last_status, failed_at)
  SELECT $1, w.outbox_id, w.attempt_no, w.attempt_id, w.event_type, w.created_at, w.tries,
    coalesce(now_at + w.wait_ms * interval '1 ms', 'infinity'), left(w.status, 200), CASE WHEN w.tries > 0
      THEN now_at END
  FROM unnest($12, $13, $14, $15, $16, $17, $18, $19) AS w(outbox_id, attempt_no, attempt_id, event_type, created_at,
    tries, wait_ms, status)
  ON CONFLICT ON CONSTRAINT payment_event_retries_pk DO UPDATE SET attempt_id = excluded.attempt_id,
    event_type = excluded.event_type, created_at = excluded.created_at, tries = excluded.tries,
    next_at = excluded.next_at, last_status = excluded.last_status, failed_at = excluded.failed_at
  WHERE excluded.tries > 0 OR r.attempt_id <> excluded.attempt_id;
  IF $21 THEN
    UPDATE {cell}.payment_event_retries r SET next_at = now_at, tries = least(r.tries, 1) WHERE r.endpoint_id = $1
      AND r.next_at > now_at AND isfinite(r.next_at);
  END IF;
  RETURN true;
END
$$;
