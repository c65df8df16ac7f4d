-- Migration 36, text of a batch. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function outbox_batch_item
CREATE OR REPLACE FUNCTION {cell}.outbox_batch_item(item integer, value jsonb) RETURNS {cell}.outbox_batch_item
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, MDY'
AS $$
DECLARE
  i       {cell}.outbox_batch_item;
  unknown text;
  moment  CONSTANT text COLLATE "C" := '^[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$';
  field   text := 'not_before';
BEGIN
  i.item := outbox_batch_item.item;
  i.error_code := 'RH002';
  i.error_hint := 'See docs/ingest.md for the form of an instruction.';
  IF jsonb_typeof(value) IS DISTINCT FROM 'object' THEN
    i.error_field := 'items';
    i.error_rule := 'OBJECT';
    i.error_message := 'an item must be a JSON object';
    RETURN i;
  END IF;
  SELECT k INTO unknown FROM jsonb_object_keys(value) k
  WHERE k NOT IN ('instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
    'not_before', 'expires_at', 'priority', 'headers', 'send_once')
  LIMIT 1;
  IF FOUND THEN
    i.error_field := left(unknown, 64);
    i.error_rule := 'UNKNOWN_FIELD';
    i.error_message := format('unknown field "%s"', left(unknown, 64));
    RETURN i;
  END IF;
  FOREACH unknown IN ARRAY ARRAY['instruction_id', 'participant_id', 'idempotency_key', 'rail_type'] LOOP
    IF jsonb_typeof(value -> unknown) NOT IN ('string', 'null') THEN
      i.error_field := unknown;
      i.error_rule := 'FORM';
      i.error_message := format('%s must be a string', unknown);
      RETURN i;
    END IF;
  END LOOP;
  i.instruction_id := value ->> 'instruction_id';
  i.participant_id := value ->> 'participant_id';
  i.idempotency_key := value ->> 'idempotency_key';
  i.rail_type := value ->> 'rail_type';
  i.payload := value -> 'payload';
  i.headers := CASE WHEN jsonb_typeof(value -> 'headers') IS DISTINCT FROM 'null'
    THEN coalesce(value -> 'headers', '{}') ELSE '{}' END;
  i.send_once := false;
  IF jsonb_typeof(value -> 'send_once') IN ('boolean', 'null') THEN
    i.send_once := coalesce((value ->> 'send_once')::boolean, false);
  ELSIF value ? 'send_once' THEN
    i.error_field := 'send_once';
    i.error_rule := 'FORM';
    i.error_message := 'send_once must be true or false';
    RETURN i;
  END IF;
  i.priority := 1;
  IF value ? 'priority' THEN
    IF value ->> 'priority' !~ '^[012]$' THEN
      i.error_field := 'priority';
      i.error_rule := 'RANGE';
      i.error_message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)';
      RETURN i;
    END IF;
    i.priority := value ->> 'priority';
  END IF;
  IF value ->> 'not_before' IS NOT NULL OR value ->> 'expires_at' IS NOT NULL THEN
    BEGIN
      IF value ->> 'not_before' !~ moment THEN
        RAISE invalid_datetime_format;
      END IF;
      i.not_before := value ->> 'not_before';
      field := 'expires_at';
      IF value ->> 'expires_at' !~ moment THEN
        RAISE invalid_datetime_format;
      END IF;
      i.expires_at := value ->> 'expires_at';
    EXCEPTION WHEN data_exception THEN
      i.error_field := field;
      i.error_rule := 'MOMENT';
      i.error_message := format('%s must be a timestamp with its zone such as 2026-11-21T09:00:00Z', field);
      i.error_hint := 'Write date, T, time with seconds, and Z or an offset such as +01:00: no blank, and no word '
        'such as "tomorrow".';
      RETURN i;
    END;
  END IF;
  i.error_code := NULL;
  i.error_hint := NULL;
  RETURN i;
END
$$;
-- end of outbox_batch_item

-- function read_outbox_batch
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
      WHEN e.value - ARRAY['instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
          'not_before', 'expires_at', 'priority', 'headers', 'send_once'] = '{}'
        AND (i.not_before IS NULL) = (m.not_before IS NULL) AND (i.expires_at IS NULL) = (m.expires_at IS NULL)
          AND i.priority IS NOT NULL
        AND i.send_once IS NOT NULL
        AND 'string' = ALL (ARRAY[jsonb_typeof(e.value -> 'instruction_id'), jsonb_typeof(e.value -> 'participant_id'),
          jsonb_typeof(e.value -> 'idempotency_key'), jsonb_typeof(e.value -> 'rail_type')])
      THEN ROW(e.n, i.instruction_id, i.participant_id, i.idempotency_key, i.rail_type, i.payload, m.not_before,
        m.expires_at,
        i.priority, i.headers, i.send_once, NULL, NULL, NULL, NULL, NULL)::{cell}.outbox_batch_item
      ELSE {cell}.outbox_batch_item(e.n::integer, e.value)
    END
    FROM jsonb_array_elements(items) WITH ORDINALITY AS e(value, n)
    CROSS JOIN LATERAL (
      SELECT e.value ->> 'instruction_id' AS instruction_id, e.value ->> 'participant_id' AS participant_id,
        e.value ->> 'idempotency_key' AS idempotency_key, e.value ->> 'rail_type' AS rail_type,
          e.value -> 'payload' AS payload,
        e.value ->> 'not_before' AS not_before, e.value ->> 'expires_at' AS expires_at,
        CASE WHEN NOT e.value ? 'priority' THEN 1 WHEN e.value ->> 'priority' IN ('0', '1', '2')
          THEN (e.value ->> 'priority')::integer END AS priority,
        coalesce(nullif(e.value -> 'headers', 'null'), '{}') AS headers,
        CASE coalesce(e.value -> 'send_once', 'null') WHEN 'true' THEN true WHEN 'false' THEN false WHEN 'null'
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
-- end of read_outbox_batch

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 36, serves 13'
$$;
-- end of schema_version
