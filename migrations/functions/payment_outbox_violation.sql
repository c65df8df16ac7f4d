-- payment_outbox_violation(...) -> (code text, message text, hint text, field text, rule text, detail text)
--   Checks a new instruction. Returns no row if it is valid, and otherwise the SQLSTATE and the
--   message of the first violation, with the field and the name of the rule, on which a caller can
--   branch (docs/ingest.md). No message contains a value of the payload or of a header.
-- returns: RH002 invalid, RH003 unknown rail, RH004 forbidden key in the payload or the
--          headers, RH005 too large or too deep, RH006 already expired, RH008 a card number, RH009
--          the participant belongs to another cell;
--          for a valid instruction, RH014 if an operator has closed enqueue. Only RH014 has a
--          detail. On a rail whose profile has kind "message", a payload may have neither amount nor
--          currency; one of them alone, and both if given, are checked as for a payment.
-- reads:   payment_outbox_settings, payment_outbox_rules, payment_rails, payment_rail_profiles, payment_forbidden_keys,
--          payment_currencies, payment_closed_gates, payment_cells, payment_buckets, payment_bucket_moves, and what
--          takes_participant reads.
-- locks:   nothing.   called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_violation(
  instruction_id text, participant_id text, idempotency_key text, rail_type text, payload jsonb,
  not_before timestamptz, expires_at timestamptz, priority integer, headers jsonb)
RETURNS TABLE (code text, message text, hint text, field text, rule text, detail text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  -- Without a collation of their own, these would use the caller's, by which an I may fold to a
  -- letter other than i.
  -- No text is made of a payload whose numbers would make it too long: it is refused below.
  fits     CONSTANT boolean := {cell}.text_fits(payload);
  amount   CONSTANT text COLLATE "C" := CASE WHEN fits THEN payload ->> 'amount' END;
  written  CONSTANT text COLLATE "C" := CASE WHEN fits THEN payload::text END;
  hidden   CONSTANT text := 'operators see the reason'; -- in place of one that may name persons
  folded   text COLLATE "C";
  missing  text COLLATE "C";
  facts    record;
BEGIN
  -- One statement reads what the checks need. The depth is only computed if the text has enough brackets.
  SELECT s.payload_bytes_max, s.headers_bytes_max, s.payload_depth_max, s.refuse_card_numbers,
    (SELECT r.own_buckets FROM {cell}.payment_outbox_rules r) AS own_buckets,
    EXISTS (
      SELECT FROM {cell}.payment_rails r
      WHERE r.rail_type = payment_outbox_violation.rail_type COLLATE "C"
        AND r.profile_version IS NOT NULL) AS rail_known,
    coalesce(payload -> 'amount', 'null') = 'null' AND coalesce(payload -> 'currency', 'null') = 'null'
      AND EXISTS (
        SELECT FROM {cell}.payment_rails r
        JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
        WHERE r.rail_type = payment_outbox_violation.rail_type COLLATE "C"
          AND p.profile ->> 'kind' = 'message') AS no_amount,
    (SELECT c.exponent FROM {cell}.payment_currencies c
     WHERE c.code = CASE WHEN fits THEN payload ->> 'currency' END
       AND jsonb_typeof(payload -> 'currency') = 'string') AS digits,
    (SELECT r.required -> (rail_type COLLATE "C") FROM {cell}.payment_outbox_rules r) AS required
  INTO STRICT facts
  FROM {cell}.payment_outbox_settings s;

  code := 'RH002';
  hint := 'See docs/ingest.md for the form of an instruction.';
  CASE
    WHEN instruction_id IS NULL OR length(instruction_id) NOT BETWEEN 1 AND 128 OR instruction_id COLLATE "C" ~ '[^ -~]'
      OR instruction_id COLLATE "C" <> btrim(instruction_id) THEN
      field := 'instruction_id'; rule := 'FORM';
      message := 'instruction_id must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    WHEN participant_id IS NULL OR length(participant_id) NOT BETWEEN 1 AND 128 OR participant_id COLLATE "C" ~ '[^ -~]'
      OR participant_id COLLATE "C" <> btrim(participant_id) THEN
      field := 'participant_id'; rule := 'FORM';
      message := 'participant_id must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    WHEN idempotency_key IS NULL OR length(idempotency_key) NOT BETWEEN 1 AND 128
      OR idempotency_key COLLATE "C" ~ '[^ -~]'
      OR idempotency_key COLLATE "C" <> btrim(idempotency_key) THEN
      field := 'idempotency_key'; rule := 'FORM';
      message := 'idempotency_key must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    -- Another cell may know other rails and limits, so nothing else is said of the instruction here.
    WHEN NOT {cell}.takes_participant(facts.own_buckets, participant_id) THEN
      code := 'RH009';
      field := 'participant_id'; rule := 'CELL';
      SELECT
        CASE
          WHEN b.contradicted THEN format(
            'the maps of cells contradict each other about bucket %s of the participant, so that no cell takes it', b.bucket)
          WHEN {cell}.bucket_is_leaving(b.version, b.leaving) THEN format(
            'bucket %s of the participant is being moved to cell %s, and no cell takes it meanwhile', b.bucket,
            (SELECT m.cell FROM {cell}.payment_bucket_moves m WHERE m.bucket = b.bucket AND m.version = b.leaving))
          WHEN b.mine THEN 'the server of this cell was started or promoted, or a dump was loaded into it, and it may '
            'have gone back in time: until its map was compared with those of the other cells, it takes no instruction'
          WHEN b.cell IS NULL OR EXISTS (SELECT FROM {cell}.payment_cells c WHERE c.here AND c.name = b.cell)
            THEN format('this cell does not take bucket %s of the participant yet: it has to learn the map of cells', b.bucket)
          ELSE format('the participant belongs to cell %s: bucket %s, version %s of its map', b.cell, b.bucket, b.version)
        END,
        CASE WHEN {cell}.bucket_is_leaving(b.version, b.leaving)
          THEN 'This call stored nothing; one with the same key that is under way may. Repeat it later with the same '
            'key and content.'
          WHEN b.mine OR b.contradicted OR b.cell IS NULL
          THEN 'Nothing was stored. Repeat it later with the same key and content.'
          ELSE 'Nothing was stored here. Read the map again, and enqueue it there with the same key.' END
      INTO message, hint
      FROM {cell}.payment_buckets b
      WHERE b.bucket = {cell}.cell_bucket(participant_id);
      RETURN NEXT; RETURN;
    WHEN payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
      field := 'payload'; rule := 'OBJECT';
      message := 'payload must be a JSON object'; RETURN NEXT; RETURN;
    WHEN headers IS NULL OR jsonb_typeof(headers) <> 'object'
      OR headers <> '{}' AND jsonb_path_exists(headers, 'strict $.* ? (@.type() <> "string")') THEN
      field := 'headers'; rule := 'OBJECT';
      message := 'headers must be a JSON object of strings'; RETURN NEXT; RETURN;
    WHEN priority IS NULL OR priority NOT BETWEEN 0 AND 2 THEN
      field := 'priority'; rule := 'RANGE';
      message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)'; RETURN NEXT; RETURN;
    WHEN not_before > clock_timestamp() + interval '366 days' OR not_before = '-infinity' THEN
      field := 'not_before'; rule := 'RANGE';
      message := 'not_before must be a moment at most 366 days ahead'; RETURN NEXT; RETURN;
    -- RFC 3339, in which it is shown and sent, has no later year. infinity is later, too.
    WHEN expires_at >= '10000-01-01 00:00:00+00' THEN
      field := 'expires_at'; rule := 'RANGE';
      message := 'expires_at must be a moment before the year 10000 in UTC; leave it out for an instruction that never '
        'expires';
      RETURN NEXT; RETURN;
    WHEN not_before >= expires_at THEN
      field := 'expires_at'; rule := 'AFTER_NOT_BEFORE';
      message := 'expires_at must be after not_before'; RETURN NEXT; RETURN;
    WHEN NOT facts.rail_known THEN
      code := 'RH003';
      field := 'rail_type'; rule := 'KNOWN';
      message := format('rail_type %s is not known to this cell', coalesce(quote_literal(left(rail_type, 64)), 'NULL'));
      hint := 'Known rails are in payment_rails; an operator adds one with: railhead rail apply FILE.';
      RETURN NEXT; RETURN;
    WHEN NOT fits THEN
      code := 'RH005';
      field := 'payload'; rule := 'SIZE';
      message := format('payload is more than %s bytes, with its numbers written out', facts.payload_bytes_max);
      hint := 'A number with an exponent is stored with all its digits: write such a value as a string.';
      RETURN NEXT; RETURN;
    WHEN octet_length(written) > facts.payload_bytes_max THEN
      code := 'RH005';
      field := 'payload'; rule := 'SIZE';
      message := format('payload is %s bytes, more than %s', octet_length(written), facts.payload_bytes_max);
      hint := 'Send references to documents, not documents.'; RETURN NEXT; RETURN;
    WHEN octet_length(headers::text) > facts.headers_bytes_max THEN
      code := 'RH005';
      field := 'headers'; rule := 'SIZE';
      message := format('headers are %s bytes, more than %s', octet_length(headers::text), facts.headers_bytes_max);
      hint := 'Headers carry trace context only.'; RETURN NEXT; RETURN;
    WHEN length(written) - length(translate(written, '{[', '')) >= facts.payload_depth_max
      AND jsonb_path_exists(payload, format('strict $.**{%s}', facts.payload_depth_max)::jsonpath) THEN
      code := 'RH005';
      field := 'payload'; rule := 'DEPTH';
      message := format('payload is nested deeper than %s levels', facts.payload_depth_max - 1);
      hint := 'Flatten it.'; RETURN NEXT; RETURN;
    ELSE
      NULL;
  END CASE;

  -- A forbidden key can only be present if its name occurs in the text as a key.
  folded := lower(written);
  IF EXISTS (SELECT FROM {cell}.payment_forbidden_keys f WHERE strpos(folded, '"' || f.key || '":') > 0) THEN
    SELECT format('payload holds the forbidden key "%s"', f.key) INTO message
    FROM jsonb_path_query(payload, 'strict $.** ? (@.type() == "object").keyvalue().key') AS found(key)
    JOIN {cell}.payment_forbidden_keys f ON f.key = lower((found.key #>> '{}') COLLATE "C")
    LIMIT 1;
    IF FOUND THEN
      code := 'RH004';
      field := 'payload'; rule := 'FORBIDDEN_KEY';
      hint := 'Documents, secrets and card data must stay outside Railhead; send a reference '
        'instead.'; RETURN NEXT; RETURN;
    END IF;
  END IF;

  IF headers <> '{}' THEN
    SELECT format('headers hold the forbidden key "%s"', f.key) INTO message
    FROM jsonb_object_keys(headers) AS found(key)
    JOIN {cell}.payment_forbidden_keys f ON f.key = lower(found.key COLLATE "C")
    LIMIT 1;
    IF FOUND THEN
      code := 'RH004';
      field := 'headers'; rule := 'FORBIDDEN_KEY';
      hint := 'Headers carry trace context only. Documents, secrets and card data must stay '
        'outside Railhead.'; RETURN NEXT; RETURN;
    END IF;
  END IF;

  IF facts.refuse_card_numbers THEN
    SELECT CASE WHEN card = '' OR card ~ '[0-9]{6}' THEN 'payload holds a card number'
      ELSE format('payload holds a card number under the key "%s"', left(card, 64)) END INTO message
    FROM {cell}.card_number_under(payload) AS card
    WHERE card IS NOT NULL;
    IF FOUND THEN
      code := 'RH008';
      field := 'payload'; rule := 'CARD_NUMBER';
      hint := 'Card data must stay outside Railhead; send a token of it. An account number, IBAN, reference or id '
        'that only looks like one goes under a key that names it as such.';
      RETURN NEXT; RETURN;
    END IF;
  END IF;

  missing := {cell}.missing_field(facts.required, payload);
  IF missing IS NOT NULL THEN
    field := 'payload.' || missing;
    rule := 'MISSING';
    message := format('payload.%s is missing: rail %s needs it', missing, rail_type);
    hint := 'The fields that a rail requires in a payload are in its configuration and in payment_outbox_rules.';
    RETURN NEXT;
    RETURN;
  END IF;

  hint := 'An amount is a decimal string such as "10.50" with a currency such as "EUR".';
  CASE
    WHEN NOT facts.no_amount AND coalesce(payload -> 'amount', 'null') = 'null' THEN
      field := 'payload.amount'; rule := 'MISSING';
      message := 'payload.amount is missing'; RETURN NEXT; RETURN;
    WHEN NOT facts.no_amount AND coalesce(payload -> 'currency', 'null') = 'null' THEN
      field := 'payload.currency'; rule := 'MISSING';
      message := 'payload.currency is missing'; RETURN NEXT; RETURN;
    WHEN NOT facts.no_amount AND (jsonb_typeof(payload -> 'amount') IS DISTINCT FROM 'string'
      OR amount !~ '^(0|[1-9][0-9]{0,18})([.][0-9]{1,4})?$') THEN
      field := 'payload.amount'; rule := 'FORM';
      message := 'payload.amount must be a JSON string with a decimal number: no sign, exponent, leading zero or JSON '
        'number';
      RETURN NEXT; RETURN;
    WHEN NOT facts.no_amount AND facts.digits IS NULL THEN
      field := 'payload.currency'; rule := 'CURRENCY';
      message := 'payload.currency must be an ISO 4217 code that has a minor unit'; RETURN NEXT; RETURN;
    WHEN length(split_part(amount, '.', 2)) > facts.digits THEN
      field := 'payload.amount'; rule := 'DECIMALS';
      message := format('payload.amount has more decimals than the %s of its currency',
        facts.digits); RETURN NEXT; RETURN;
    WHEN amount !~ '[1-9]' THEN
      field := 'payload.amount'; rule := 'ZERO';
      message := 'payload.amount must not be zero'; RETURN NEXT; RETURN;
    WHEN length(amount) > 14 AND amount::numeric * 10::numeric ^ facts.digits::numeric > 9223372036854775807 THEN
      field := 'payload.amount'; rule := 'RANGE';
      message := 'payload.amount is beyond 9223372036854775807 minor units'; RETURN NEXT; RETURN;
    WHEN expires_at <= clock_timestamp() THEN
      code := 'RH006';
      field := 'expires_at'; rule := 'EXPIRED';
      message := 'the instruction has already expired';
      hint := 'Enqueue it with a later expires_at, if it still should be paid.'; RETURN NEXT; RETURN;
    ELSE
      NULL;
  END CASE;

  -- This is the last check, so that only a call that would have been accepted is advised to retry.
  -- If several gates apply, the message names the one that opens last.
  SELECT format('enqueue is closed for %s by %s since %s%s: %s', g.what, g.closed_by,
    to_char(g.closed_at AT TIME ZONE 'UTC', g.form),
      ' until ' || to_char(g.closed_until AT TIME ZONE 'UTC', g.form), g.close_reason),
    CASE g.scope WHEN 'rail' THEN 'rail_type' WHEN 'participant' THEN 'participant_id' ELSE 'cell' END,
    'Closed: ' || string_agg(g.what, ', ') OVER (ORDER BY g.scope ROWS BETWEEN UNBOUNDED PRECEDING
      AND UNBOUNDED FOLLOWING) || '.'
  INTO message, field, detail
  FROM (
    -- Callers learn the logins of operators, and not for which persons they acted. A text that is not apart in words,
    -- as one of before migration 45, may name them.
    SELECT c.scope, c.closed_by, c.closed_at, c.closed_until,
      CASE WHEN c.stops IS NULL THEN hidden ELSE {cell}.text_of_stops(jsonb_build_object(
        'left_out', c.stops -> 'left_out', 'words', (
          SELECT jsonb_agg(w.word - 'for'
            || CASE WHEN w.word ? 'whole' THEN jsonb_build_object('said', hidden) ELSE '{}' END ORDER BY w.n)
          FROM jsonb_array_elements(c.stops -> 'words') WITH ORDINALITY AS w(word, n)))) END AS close_reason,
      'YYYY-MM-DD"T"HH24:MI:SS"Z"' AS form,
      CASE c.scope WHEN 'cell' THEN 'everything' ELSE c.scope || ' ' || c.name END AS what
    FROM {cell}.payment_closed_gates c
    WHERE (c.scope, c.name) IN (('cell', '*'), ('rail', rail_type COLLATE "C"),
      ('participant', participant_id COLLATE "C"))) g
  ORDER BY g.closed_until DESC NULLS FIRST, g.scope
  LIMIT 1;
  IF FOUND THEN
    code := 'RH014';
    rule := 'CLOSED';
    hint := 'Nothing was stored. Send the same call again, with the same key, once enqueue is open.';
    RETURN NEXT;
  END IF;
END
$$;
