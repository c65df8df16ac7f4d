-- Stops as the functions of migrations 45 to 48 left them, and one whose text was changed by hand.
UPDATE railhead.payment_rails
SET paused = true, paused_by = 'ops', paused_at = now(),
  pause_reason = 'for ada@bank.example: broken; until ten; and ops for cy@bank.example: me, and' || chr(894) || ' too',
  stops = jsonb_build_object('left_out', 0, 'words', jsonb_build_array(
    jsonb_build_object('by', 'ops', 'for', 'ada@bank.example', 'said', 'broken; until ten', 'at', 'x'),
    jsonb_build_object('by', 'ops', 'for', 'cy@bank.example', 'said', 'me; and' || chr(894) || ' too', 'at', 'y')))
WHERE rail_type = '*';
INSERT INTO railhead.payment_paused_participants (participant_id, paused_by, pause_reason, stops)
VALUES ('p-1', 'ops', 'for ada@bank.example: broken; until ten',
    '{"left_out": 0, "words": [{"by": "ops", "for": "ada@bank.example", "said": "broken; until ten"}]}'),
  ('p-2', 'ops', 'by hand; until ten', '{"left_out": 0, "words": [{"by": "ops", "for": null, "said": "before"}]}');
INSERT INTO railhead.payment_closed_gates (scope, name, closed_by, close_reason, stops)
VALUES ('cell', '*', 'ops', 'for ada@bank.example: broken; until ten',
    '{"left_out": 0, "words": [{"by": "ops", "for": "ada@bank.example", "said": "broken; until ten"}]}'),
  ('rail', 'one', 'ops', 'of before; migration 45', NULL);
