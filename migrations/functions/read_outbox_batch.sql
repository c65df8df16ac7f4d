-- read_outbox_batch(items jsonb) -> outbox_batch_item[]
--   Reads the items of a batch and checks them, all in one statement. Those that
--   are sound beyond doubt are read here; every other is read again by
--   outbox_batch_item, which is slower and names what is wrong. TestBatchReadsAlike
--   holds the two against each other.
--
--   A moment is read here only in a form that can't fail to be one: the cast of
--   any other might raise, and take the whole batch down.
-- reads:   payment_outbox_rules, payment_forbidden_keys, outbox_batch_item's tables.
-- locks:   nothing.   called by: enqueue_payment_outbox_batch.
CREATE OR REPLACE FUNCTION {cell}.read_outbox_batch(items jsonb) RETURNS {cell}.outbox_batch_item[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  batch {cell}.outbox_batch_item[];
BEGIN
  WITH needle AS MATERIALIZED (
    SELECT '"' || f.key || '":' AS name FROM {cell}.payment_forbidden_keys f
  )
  SELECT ARRAY(
    SELECT CASE
      WHEN jsonb_typeof(e.value) <> 'object' THEN {cell}.outbox_batch_item(e.n::integer, e.value)
      WHEN i.rail_type = ANY (r.rail_types)
        AND (r.required -> i.rail_type IS NULL OR {cell}.missing_field(r.required -> i.rail_type, i.payload) IS NULL)
        AND e.value - ARRAY['instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
          'not_before', 'expires_at', 'priority', 'headers'] = '{}'
        AND (i.not_before IS NULL) = (m.not_before IS NULL) AND (i.expires_at IS NULL) = (m.expires_at IS NULL)
        AND NOT EXISTS (SELECT FROM needle n WHERE strpos(l.folded, n.name) > 0)
        AND NOT {cell}.enqueue_is_closed(r.closed_gates, i.rail_type, i.participant_id)
        AND {cell}.payment_outbox_sound(i.instruction_id, i.participant_id, i.idempotency_key, i.payload, m.not_before, m.expires_at,
          i.priority, i.headers, w.written, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
          (r.digits -> (i.payload ->> 'currency'))::integer, r.refuse_card_numbers)
      THEN ROW(e.n, i.instruction_id, i.participant_id, i.idempotency_key, i.rail_type, i.payload, m.not_before, m.expires_at,
        i.priority, i.headers, {cell}.payment_outbox_fingerprint(i.participant_id, i.rail_type, i.payload),
        NULL, NULL, NULL, NULL, NULL)::{cell}.outbox_batch_item
      ELSE {cell}.outbox_batch_item(e.n::integer, e.value)
    END
    FROM jsonb_array_elements(items) WITH ORDINALITY AS e(value, n)
    CROSS JOIN LATERAL (
      SELECT e.value ->> 'instruction_id' AS instruction_id, e.value ->> 'participant_id' AS participant_id,
        e.value ->> 'idempotency_key' AS idempotency_key, e.value ->> 'rail_type' AS rail_type, e.value -> 'payload' AS payload,
        e.value ->> 'not_before' AS not_before, e.value ->> 'expires_at' AS expires_at,
        CASE WHEN NOT e.value ? 'priority' THEN 1 WHEN e.value ->> 'priority' IN ('0', '1', '2') THEN (e.value ->> 'priority')::integer END AS priority,
        coalesce(nullif(e.value -> 'headers', 'null'), '{}') AS headers
      OFFSET 0) i
    CROSS JOIN LATERAL (SELECT i.payload::text AS written OFFSET 0) w
    CROSS JOIN LATERAL (
      SELECT lower((w.written || CASE WHEN i.headers = '{}' THEN '' ELSE i.headers::text END) COLLATE "C") AS folded OFFSET 0) l
    CROSS JOIN LATERAL (
      SELECT CASE WHEN i.not_before ~ p.moment THEN i.not_before::timestamptz END AS not_before,
        CASE WHEN i.expires_at ~ p.moment THEN i.expires_at::timestamptz END AS expires_at
      FROM (SELECT '^2[0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)'
        'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])$' AS moment) p
      OFFSET 0) m
    JOIN {cell}.payment_outbox_rules r ON r.singleton)
  INTO batch;
  RETURN batch;
END
$$;
