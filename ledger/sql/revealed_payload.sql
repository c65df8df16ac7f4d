-- The payload that an act reveals. $1 act_id
SELECT r.payload::text, coalesce(r.headers, '{}')::text
FROM {cell}.revealed_payload($1) r
