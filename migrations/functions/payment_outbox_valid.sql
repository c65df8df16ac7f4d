-- payment_outbox_valid(instruction_id, participant_id, idempotency_key, payload, not_before, expires_at,
--                      priority, headers, written, payload_bytes_max, headers_bytes_max, payload_depth_max, digits,
--                      refuse_card_numbers) -> boolean
--   Whether an instruction is certainly valid. If the result is not true (null included),
--   payment_outbox_violation has to check the instruction. If it is true, the rail is known, and
--   the text holds no forbidden key, payment_outbox_violation would find no violation. The property
--   test TestSoundHasNoFault compares the two functions.
--
--   The function is one expression, which the planner inlines, because nearly every instruction is
--   valid. It therefore sets no search_path; its callers do. written is the payload's text; the
--   limits are those of payment_outbox_settings; digits is the exponent of the payload's currency,
--   or null.
-- reads, writes, locks: nothing.   called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_valid(
  instruction_id text, participant_id text, idempotency_key text, payload jsonb,
  not_before timestamptz, expires_at timestamptz, priority integer, headers jsonb, written text,
  payload_bytes_max integer, headers_bytes_max integer, payload_depth_max integer, digits integer,
  refuse_card_numbers boolean) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
  SELECT
    -- Three names of printable ASCII. Names with a space in them are left to
    -- payment_outbox_violation.
    ($1 || E'\n' || $2 || E'\n' || $3) COLLATE "C" ~ E'^[!-~]+\n[!-~]+\n[!-~]+$'
    AND greatest(octet_length($1), octet_length($2), octet_length($3)) <= 128
    AND $7 BETWEEN 0 AND 2
    AND ($5 IS NULL OR isfinite($5) AND $5 <= clock_timestamp() + interval '366 days')
    AND ($6 IS NULL OR $6 < timestamptz '10000-01-01 00:00:00+00' AND $6 > greatest(clock_timestamp(), $5))
    AND ($8 = '{}' OR jsonb_typeof($8) = 'object' AND octet_length($8::text) <= $11
      AND NOT jsonb_path_exists($8, 'strict $.* ? (@.type() <> "string")'))
    AND octet_length($9) <= $10
    -- With fewer brackets than levels, the payload is not too deep.
    AND octet_length($9) - octet_length(replace(replace($9 COLLATE "C", '{', ''), '[', '')) < $12
    -- Digits with which a card number may begin, not after a letter other than the last one of an
    -- escape such as \n, and enough of them or in groups.
    AND NOT ($14
      AND $9 COLLATE "C" ~ '(?:[^0-9A-Zac-eg-mo-qsu-z]|u00[01][0-9a-f])[2-689][0-9]{3}(?:[0-9]{9,15}[^0-9A-Za-z]|[ -][0-9]{4,6}[ -][0-9]{4})')
    -- At most 13 digits before the point and 4 after it are far below the largest amount; one of
    -- them must not be 0. A payload that is not an object has no amount.
    AND jsonb_typeof($4 -> 'amount') = 'string'
    AND ($4 ->> 'amount') ~ '^(?:[1-9][0-9]{0,12}(?:[.][0-9]{1,4})?|0[.][0-9]{0,3}[1-9][0-9]{0,3})$'
    AND octet_length(split_part($4 ->> 'amount', '.', 2)) <= $13
$$;
