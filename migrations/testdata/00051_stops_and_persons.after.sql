-- Each reason is the text of its words, unless it was another one by more than its semicolons.
DO $$
DECLARE
  found text;
BEGIN
  SELECT string_agg(v.text, E'\n' ORDER BY v.text COLLATE "C") INTO found
  FROM (
    SELECT r.rail_type || ' ' || r.pause_reason AS text FROM railhead.payment_rails r WHERE r.paused
    UNION ALL SELECT p.participant_id || ' ' || p.pause_reason FROM railhead.payment_paused_participants p
    UNION ALL SELECT g.scope || ' ' || g.close_reason FROM railhead.payment_closed_gates g) v;
  IF found COLLATE "C" <> array_to_string(ARRAY[
    '* for ada@bank.example: broken, until ten; and ops for cy@bank.example: me, and, too',
    'cell for ada@bank.example: broken, until ten', 'p-1 for ada@bank.example: broken, until ten',
    'p-2 by hand; until ten', 'rail of before; migration 45'], E'\n')
  THEN
    RAISE EXCEPTION 'the reasons are %', found;
  END IF;
END
$$;
