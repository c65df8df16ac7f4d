-- The key is derived here, by functions of the server only.
WITH derived AS (
  SELECT k.outbox_id, k.rail_key,
    encode(substr(sha256(convert_to(
      s.rail_key_namespace::text || chr(31) || k.participant_id || chr(31) || k.instruction_id || chr(31) || k.idempotency_key, 'UTF8')), 1, 16), 'hex')::uuid AS derived
  FROM {cell}.payment_outbox_keys k
  JOIN {cell}.payment_outbox_settings s ON s.singleton
)
SELECT format('%s: its rail key is rh%s, and rh%s is derived from its caller''s key: the rail may have received another', d.outbox_id,
  replace(d.rail_key::text, '-', ''), replace(d.derived::text, '-', '')) AS violation
FROM derived d
WHERE d.rail_key <> d.derived
