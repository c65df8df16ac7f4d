-- Whether the server can parse the arguments of enqueue_arrays.sql and door_enqueue.sql; an error gives the reason
-- why not.
-- $1 instruction_id, $2 participant_id, $3 idempotency_key, $4 rail_type, $5 payload, $6 not_before, $7 expires_at,
-- $8 priority, $9 headers, $10 send_once, $11 principal, each an array
SELECT num_nulls($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]::jsonb[], $6::timestamptz[],
  $7::timestamptz[],
  $8::integer[], $9::text[]::jsonb[], $10::boolean[], $11::text[])
