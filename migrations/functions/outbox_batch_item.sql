-- outbox_batch_item(item integer, value jsonb) -> outbox_batch_item
--   Parses one item of a batch. An error is not raised, because an invalid item must not affect the
--   others; it is returned in error_code, error_message, error_hint, error_field and error_rule. Ids
--   and keys must be strings: a number that a caller's JSON library has rounded would be the id of another
--   payment. A timestamp must be in the form of RFC 3339, as in a file for railhead enqueue. Other forms that
--   PostgreSQL would accept ('tomorrow', or no time zone) depend on the clock or the time zone of
--   the session. No text is made of an object or an array, which may be long (text_fits).
-- reads:   nothing.   called by: read_outbox_batch.
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
    IF jsonb_typeof(value -> 'priority') IN ('object', 'array') OR value ->> 'priority' !~ '^[012]$' THEN
      i.error_field := 'priority';
      i.error_rule := 'RANGE';
      i.error_message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)';
      RETURN i;
    END IF;
    i.priority := value ->> 'priority';
  END IF;
  IF coalesce(value -> 'not_before', 'null') <> 'null' OR coalesce(value -> 'expires_at', 'null') <> 'null' THEN
    BEGIN
      IF jsonb_typeof(value -> 'not_before') IN ('object', 'array') OR value ->> 'not_before' !~ moment THEN
        RAISE invalid_datetime_format;
      END IF;
      i.not_before := value ->> 'not_before';
      field := 'expires_at';
      IF jsonb_typeof(value -> 'expires_at') IN ('object', 'array') OR value ->> 'expires_at' !~ moment THEN
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
