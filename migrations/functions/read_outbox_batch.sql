-- read_outbox_batch(items jsonb) -> outbox_batch_item[]
--   Parses the items of a batch in one statement. Items that are certainly well formed are parsed
--   here; all others are parsed again by outbox_batch_item, which is slower and names the error.
--   TestBatchReadsAlike compares the two functions.
--
--   A timestamp is only cast here if its form guarantees that the cast succeeds: another cast might
--   raise an error, and the whole batch would fail. An item that is long without its payload and headers is left to
--   outbox_batch_item too, because the text of what is no string may be much longer (text_fits).
-- reads, locks: nothing.   called by: enqueue_payment_outbox_batch.
CREATE OR REPLACE FUNCTION {cell}.read_outbox_batch(items jsonb) RETURNS {cell}.outbox_batch_item[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  batch {cell}.outbox_batch_item[];
BEGIN
  SELECT ARRAY(
    SELECT CASE
      WHEN jsonb_typeof(e.value) <> 'object' THEN {cell}.outbox_batch_item(e.n::integer, e.value)
      WHEN g.value - ARRAY['instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
          'not_before', 'expires_at', 'priority', 'headers', 'send_once'] = '{}'
        AND (i.not_before IS NULL) = (m.not_before IS NULL) AND (i.expires_at IS NULL) = (m.expires_at IS NULL)
          AND i.priority IS NOT NULL
        AND i.send_once IS NOT NULL
        AND 'string' = ALL (ARRAY[jsonb_typeof(g.value -> 'instruction_id'), jsonb_typeof(g.value -> 'participant_id'),
          jsonb_typeof(g.value -> 'idempotency_key'), jsonb_typeof(g.value -> 'rail_type')])
      THEN ROW(e.n, i.instruction_id, i.participant_id, i.idempotency_key, i.rail_type, i.payload, m.not_before,
        m.expires_at,
        i.priority, i.headers, i.send_once, NULL, NULL, NULL, NULL, NULL)::{cell}.outbox_batch_item
      ELSE {cell}.outbox_batch_item(e.n::integer, e.value)
    END
    FROM jsonb_array_elements(items) WITH ORDINALITY AS e(value, n)
    CROSS JOIN LATERAL (
      SELECT CASE WHEN pg_column_size(e.value) - coalesce(pg_column_size(e.value -> 'payload'), 0)
        - coalesce(pg_column_size(e.value -> 'headers'), 0) < 2048 THEN e.value ELSE '{}' END AS value
      OFFSET 0) g
    CROSS JOIN LATERAL (
      SELECT g.value ->> 'instruction_id' AS instruction_id, g.value ->> 'participant_id' AS participant_id,
        g.value ->> 'idempotency_key' AS idempotency_key, g.value ->> 'rail_type' AS rail_type,
          g.value -> 'payload' AS payload,
        g.value ->> 'not_before' AS not_before, g.value ->> 'expires_at' AS expires_at,
        CASE WHEN NOT g.value ? 'priority' THEN 1 WHEN g.value ->> 'priority' IN ('0', '1', '2')
          THEN (g.value ->> 'priority')::integer END AS priority,
        coalesce(nullif(g.value -> 'headers', 'null'), '{}') AS headers,
        CASE coalesce(g.value -> 'send_once', 'null') WHEN 'true' THEN true WHEN 'false' THEN false WHEN 'null'
          THEN false END AS send_once
      OFFSET 0) i
    CROSS JOIN LATERAL (
      SELECT CASE WHEN i.not_before ~ p.moment THEN i.not_before::timestamptz END AS not_before,
        CASE WHEN i.expires_at ~ p.moment THEN i.expires_at::timestamptz END AS expires_at
      FROM (SELECT '^2[0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)'
        'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])$' AS moment) p
      OFFSET 0) m)
  INTO batch;
  RETURN batch;
END
$$;
