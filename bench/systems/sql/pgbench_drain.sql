-- One turn of the floor, as floor.go has it: claim 100 (commit), record 100 outcomes (commit).
WITH picked AS MATERIALIZED (
  SELECT ctid FROM pending WHERE due_at <= statement_timestamp() ORDER BY due_at, id LIMIT 100 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM pending WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked)) RETURNING id, n, participant, payload
), kept AS (
  INSERT INTO attempts (id, attempt_no, state, n, participant, payload)
  SELECT id, 1, 'DISPATCHING', n, participant, payload FROM gone ORDER BY id
  RETURNING id, n
)
SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(n), '{}') AS numbers FROM kept \gset
INSERT INTO attempts (id, attempt_no, state, n, participant)
SELECT id, 2, 'DISPATCHED', n, '' FROM unnest(:ids::uuid[], :numbers::bigint[]) AS t(id, n) ORDER BY id;
