-- The form of a payload, without its values. $1 outbox_id
SELECT f.depth, coalesce(f.key, ''), f.kind
FROM {cell}.payload_form($1) f
