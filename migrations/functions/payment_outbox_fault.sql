-- payment_outbox_fault(...) -> (code text, message text, hint text)
--   Checks a new instruction. Returns no row when it is sound, else the SQLSTATE
--   and the sentence of the first thing that is wrong. No message holds a value
--   of the payload.
-- returns: RH002 invalid, RH003 unknown rail, RH004 forbidden key, RH005 too
--          large or too deep, RH006 already expired.
-- reads:   payment_outbox_settings, payment_rails, payment_forbidden_keys, payment_currencies.
-- locks:   nothing.   called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_fault(
  instruction_id text, participant_id text, idempotency_key text, rail_type text, payload jsonb,
  not_before timestamptz, expires_at timestamptz, priority integer, headers jsonb)
RETURNS TABLE (code text, message text, hint text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  id_shape CONSTANT text := '^[!-~]([ -~]{0,126}[!-~])?$';
  settings  {cell}.payment_outbox_settings;
  amount    text;
  forbidden text;
  digits    integer;
BEGIN
  SELECT s.* INTO STRICT settings FROM {cell}.payment_outbox_settings s;

  code := 'RH002';
  hint := 'See docs/ingest.md for the form of an instruction.';
  CASE
    WHEN instruction_id IS NULL OR instruction_id !~ id_shape THEN
      message := 'instruction_id must be 1 to 128 printable ASCII characters without spaces at its ends'; RETURN NEXT; RETURN;
    WHEN participant_id IS NULL OR participant_id !~ id_shape THEN
      message := 'participant_id must be 1 to 128 printable ASCII characters without spaces at its ends'; RETURN NEXT; RETURN;
    WHEN idempotency_key IS NULL OR idempotency_key !~ id_shape THEN
      message := 'idempotency_key must be 1 to 128 printable ASCII characters without spaces at its ends'; RETURN NEXT; RETURN;
    WHEN payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
      message := 'payload must be a JSON object'; RETURN NEXT; RETURN;
    WHEN headers IS NULL OR jsonb_typeof(headers) <> 'object'
      OR jsonb_path_exists(headers, 'strict $.* ? (@.type() <> "string")') THEN
      message := 'headers must be a JSON object of strings'; RETURN NEXT; RETURN;
    WHEN priority IS NULL OR priority NOT BETWEEN 0 AND 2 THEN
      message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)'; RETURN NEXT; RETURN;
    WHEN not_before > clock_timestamp() + interval '366 days' OR not_before = '-infinity' THEN
      message := 'not_before must be a moment at most 366 days ahead'; RETURN NEXT; RETURN;
    WHEN expires_at = 'infinity' THEN
      message := 'expires_at must be a moment; leave it out for an instruction that never expires'; RETURN NEXT; RETURN;
    WHEN not_before >= expires_at THEN
      message := 'expires_at must be after not_before'; RETURN NEXT; RETURN;
    ELSE
      NULL;
  END CASE;

  IF rail_type IS NULL OR NOT EXISTS (
    SELECT FROM {cell}.payment_rails r WHERE r.rail_type = payment_outbox_fault.rail_type AND r.profile_version IS NOT NULL)
  THEN
    code := 'RH003';
    message := format('rail_type %s is not known to this cell', coalesce(quote_literal(left(rail_type, 64)), 'NULL'));
    hint := 'Known rails are in payment_rails; an operator adds one with: railhead rail apply FILE.';
    RETURN NEXT; RETURN;
  END IF;

  IF octet_length(payload::text) > settings.payload_bytes_max THEN
    code := 'RH005';
    message := format('payload is %s bytes, more than %s', octet_length(payload::text), settings.payload_bytes_max);
    hint := 'Send references to documents, not documents.'; RETURN NEXT; RETURN;
  END IF;
  IF octet_length(headers::text) > settings.headers_bytes_max THEN
    code := 'RH005';
    message := format('headers are %s bytes, more than %s', octet_length(headers::text), settings.headers_bytes_max);
    hint := 'Headers carry trace context only.'; RETURN NEXT; RETURN;
  END IF;
  IF jsonb_path_exists(payload, format('strict $.**{%s}', settings.payload_depth_max)::jsonpath) THEN
    code := 'RH005';
    message := format('payload is nested deeper than %s levels', settings.payload_depth_max - 1);
    hint := 'Flatten it.'; RETURN NEXT; RETURN;
  END IF;

  SELECT f.key INTO forbidden
  FROM jsonb_path_query(payload, 'strict $.** ? (@.type() == "object").keyvalue().key') AS found(key)
  JOIN {cell}.payment_forbidden_keys f ON f.key = lower(found.key #>> '{}')
  LIMIT 1;
  IF FOUND THEN
    code := 'RH004';
    message := format('payload holds the forbidden key "%s"', forbidden);
    hint := 'Documents, secrets and card data must stay outside Railhead; send a reference instead.'; RETURN NEXT; RETURN;
  END IF;

  amount := payload ->> 'amount';
  hint := 'An amount is a decimal string such as "10.50" beside a currency such as "EUR".';
  IF jsonb_typeof(payload -> 'amount') IS DISTINCT FROM 'string' OR amount !~ '^(0|[1-9][0-9]{0,17})(\.[0-9]{1,4})?$' THEN
    message := 'payload.amount must be a JSON string with a decimal number: no sign, exponent, leading zero or JSON number';
    RETURN NEXT; RETURN;
  END IF;
  SELECT c.exponent INTO digits FROM {cell}.payment_currencies c
  WHERE c.code = payload ->> 'currency' AND jsonb_typeof(payload -> 'currency') = 'string';
  IF NOT FOUND THEN
    message := 'payload.currency must be an ISO 4217 code that has a minor unit'; RETURN NEXT; RETURN;
  END IF;
  IF length(split_part(amount, '.', 2)) > digits THEN
    message := format('payload.amount has more decimals than the %s of its currency', digits); RETURN NEXT; RETURN;
  END IF;
  IF amount::numeric = 0 THEN
    message := 'payload.amount must not be zero'; RETURN NEXT; RETURN;
  END IF;
  IF amount::numeric * 10 ^ digits > 9223372036854775807 THEN
    message := 'payload.amount is beyond 9223372036854775807 minor units'; RETURN NEXT; RETURN;
  END IF;

  IF expires_at <= clock_timestamp() THEN
    code := 'RH006';
    message := 'the instruction has already expired';
    hint := 'Enqueue it with a later expires_at, if it still should be paid.'; RETURN NEXT; RETURN;
  END IF;
  RETURN;
END
$$;
