-- text_of_stops(stops jsonb) -> text
--   The reason of a pause, or of a closed gate, for people: 'maintenance; and LOGIN for PERSON: REASON',
--   one part for each word of add_stop. Without a person there is no 'for PERSON'; the first part has no
--   login, which is in the row.
--
--   It has at most 2,000 characters, and of each reason at most 500. If that is not enough, all reasons
--   are cut to the same length, of 60 characters at least; then parts are left out, as words leave in
--   add_stop, and '; and N more' counts them. The first and the newest are always there. If anything is
--   cut or left out, the time of the newest word follows, so that each new word makes another text. A
--   semicolon within a reason or a name, or a character that looks like one, is written as a comma: no part imitates
--   another one. In a database whose encoding is neither UTF8 nor SQL_ASCII that holds for the semicolon alone.
-- reads, writes, locks: nothing.
-- called by: add_stop, pause_rail, pause_participant, close_enqueue, auto_pause_rail, reason_of_both,
--            payment_outbox_violation.
CREATE OR REPLACE FUNCTION {cell}.text_of_stops(stops jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  length_max CONSTANT integer := 2000;
  reason_max CONSTANT integer := 500;
  lengths CONSTANT integer[] := ARRAY[60, 90, 120, 160, 200, 250, 300, 400];
  semicolons text := ';'; -- a pattern
  labels text[];
  reasons text[];
  whole boolean[];
  leaving bigint[];
  last_at text;
  cut_at integer;
  result text;
  fitting text;
  shortened boolean;
BEGIN
  -- Other encodings can't hold all that looks like a semicolon; a literal of it, or chr(), would fail there where it is
  -- read. Here they are in UTF-8, with | between them: the Greek question mark, the Arabic, reversed and turned
  -- semicolons, and those of presentation forms.
  IF getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') THEN
    semicolons := convert_from(decode('3B 7C CDBE 7C D89B 7C E2818F 7C E2B8B5 7C EFB894 7C EFB994 7C EFBC9B', 'hex'),
      getdatabaseencoding());
  END IF;
  SELECT array_agg(regexp_replace(CASE WHEN w.n > 1 THEN w.login ELSE '' END
      || coalesce(CASE WHEN w.n > 1 THEN ' ' ELSE '' END || 'for ' || left(w.person, 64), '') COLLATE "C",
      semicolons, ',', 'g') ORDER BY w.n),
    array_agg(CASE WHEN w.whole THEN w.said ELSE regexp_replace(w.said COLLATE "C", semicolons, ',', 'g') END
      ORDER BY w.n),
    array_agg(w.whole ORDER BY w.n),
    array_agg(w.n ORDER BY w.newest, w.n) FILTER (WHERE w.n > 1),
    (array_agg(w.at ORDER BY w.n DESC))[1]
  INTO labels, reasons, whole, leaving, last_at
  FROM (
    SELECT e.n, e.word ->> 'by' AS login, e.word ->> 'for' AS person, e.word ->> 'said' AS said,
      e.word ? 'whole' AS whole, e.word ->> 'at' AS at,
      lead(e.n) OVER (PARTITION BY e.word -> 'by', e.word -> 'for' ORDER BY e.n) IS NULL AS newest
    FROM jsonb_array_elements($1 -> 'words') WITH ORDINALITY AS e(word, n)) w;
  -- All of it first, which is usual. Then the shortest form, without one more word each time, until it fits, and the
  -- longest one that fits.
  FOR gone IN 0 .. cardinality(labels) - 1 LOOP
    FOREACH cut_at IN ARRAY CASE WHEN gone = 0 THEN reason_max || lengths ELSE lengths END LOOP
      SELECT string_agg(CASE WHEN p.n > 1 THEN '; and ' ELSE '' END
          || CASE WHEN p.label <> '' COLLATE "C" THEN p.label || ': ' ELSE '' END
          || CASE WHEN p.cut THEN left(p.reason, cut_at) || ' ...' ELSE p.reason END, '' ORDER BY p.n),
        bool_or(p.cut)
      INTO result, shortened
      FROM (
        SELECT u.n, u.label, u.reason, NOT u.whole AND length(u.reason) > cut_at AS cut
        FROM unnest(labels, reasons, whole) WITH ORDINALITY AS u(label, reason, whole, n)
        WHERE u.n <> ALL (leaving[:gone]) IS NOT FALSE) p;
      IF gone + ($1 ->> 'left_out')::integer > 0 THEN
        result := format('%s; and %s more', result, gone + ($1 ->> 'left_out')::integer);
        shortened := true;
      END IF;
      IF shortened THEN
        result := format('%s (each is whole in railhead log, the last of %s)', result, last_at);
      END IF;
      IF length(result) <= length_max THEN
        fitting := result;
      END IF;
      EXIT WHEN cut_at = reason_max AND fitting IS NOT NULL OR cut_at < reason_max AND length(result) > length_max;
    END LOOP;
    EXIT WHEN fitting IS NOT NULL;
  END LOOP;
  RETURN fitting;
END
$$;
