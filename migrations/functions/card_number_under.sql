-- card_number_under(payload jsonb) -> text
--   The key under which a payload holds a card number; '' if the number is itself a key or is under
--   none; null if there is no card number. A card number is 13 to 19 digits, delimited from letters
--   and other digits, written together or in the groups that are printed on cards (4-4-4-4,
--   4-4-4-4-3, 4-6-5, 4-6-4). Its length and first digits are those of a card scheme, and its check
--   digit is valid (ISO/IEC 7812-1, annex B). Digits that follow the head of an IBAN belong to the
--   IBAN.
--
--   An account number, reference or id may have the same form by chance, as does one in ten of
--   those with the same first digits. Values below a key that names one of them, and the payload's
--   amount, are therefore not checked.
-- reads, writes, locks: nothing.   called by: payment_outbox_violation.
CREATE OR REPLACE FUNCTION {cell}.card_number_under(payload jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
SET jit = off
AS $$
  WITH RECURSIVE walk(key, value) AS (
    SELECT '', payload - 'amount'
    UNION ALL
    SELECT e.key, e.value
    FROM walk w
    CROSS JOIN LATERAL (
      SELECT o.key, o.value FROM jsonb_each(CASE jsonb_typeof(w.value) WHEN 'object' THEN w.value ELSE '{}' END)
        AS o(key, value)
      UNION ALL
      SELECT '', to_jsonb(o.key) FROM jsonb_object_keys(CASE jsonb_typeof(w.value) WHEN 'object' THEN w.value
        ELSE '{}' END) AS o(key)
      UNION ALL
      SELECT w.key, a.value FROM jsonb_array_elements(CASE jsonb_typeof(w.value) WHEN 'array' THEN w.value
        ELSE '[]' END) AS a(value)) e
    -- id, ids and ref have to be words of the key, as in payerId or end_to_end_id. The others match
    -- anywhere in it.
    WHERE e.key COLLATE "C" !~* 'account|acct|iban|reference'
      AND e.key COLLATE "C" !~ '(^|[^A-Za-z])([Ii]ds?|IDS?|[Rr]ef|REF)($|[^A-Za-z])|[a-z0-9](Ids?|IDS?|Ref|REF)($|[^a-z])'
  ),
  -- Runs of digits, and digits in printed groups.
  candidate AS (
    SELECT w.key, translate(m.found[1], ' -', '') COLLATE "C" AS digits
    FROM walk w
    CROSS JOIN LATERAL (
      SELECT regexp_matches((w.value #>> '{}') COLLATE "C", '(?<![0-9A-Za-z])([0-9]{13,19})(?![0-9A-Za-z])', 'g')
      UNION ALL
      SELECT regexp_matches((w.value #>> '{}') COLLATE "C",
        '(?<![0-9A-Za-z]|[A-Z]{2}[0-9]{2} )([0-9]{4}(?:(?: [0-9]{4}){3}(?: '
          '[0-9]{3})?|(?:-[0-9]{4}){3}(?:-[0-9]{3})?|[ -][0-9]{6}[ -][0-9]{4,5}))(?![0-9A-Za-z])',
        'g')) AS m(found)
    WHERE jsonb_typeof(w.value) IN ('string', 'number')
  )
  SELECT c.key
  FROM candidate c
  JOIN (VALUES
    ('4', 13, 13), ('4', 16, 16), ('4', 19, 19),                          -- Visa
    ('5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720', 16, 16),               -- Mastercard
    ('3[47]', 15, 15),                                                    -- American Express
    ('30[0-59]|3[689]', 14, 19),                                          -- Diners Club
    ('6011|64[4-9]|65', 16, 19),                                          -- Discover
    ('35(?:2[89]|[3-8])', 16, 19),                                        -- JCB
    ('62|81', 16, 19),                                                    -- UnionPay
    ('50|5[6-8]|6304|6390|67', 13, 19),                                   -- Maestro
    ('220[0-4]', 16, 19),                                                 -- Mir
    ('60|65|8[12]|508|636[23]', 16, 16),                                  -- RuPay, Elo, Hipercard
    ('9792', 16, 16)                                                      -- Troy
  ) AS scheme(head, shortest, longest)
    ON length(c.digits) BETWEEN scheme.shortest AND scheme.longest AND c.digits ~ ('^(?:' || scheme.head || ')')
  WHERE (
    -- The Luhn check: every second digit from the right is doubled, and counts as the sum of its
    -- digits.
    SELECT sum(CASE WHEN n % 2 = 1 THEN d ELSE d * 2 - CASE WHEN d > 4 THEN 9 ELSE 0 END END)
    FROM generate_series(1, length(c.digits)) AS n
    CROSS JOIN LATERAL (SELECT substr(c.digits, length(c.digits) - n + 1, 1)::integer AS d) AS digit) % 10 = 0
  LIMIT 1
$$;
