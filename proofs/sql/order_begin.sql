-- The time up to which claims are compared, in microseconds since 1970, and whether some profile
-- requires an order. A standby shows a claim later than it was made, and at times not what came before it.
SELECT (extract(epoch FROM CASE WHEN pg_is_in_recovery() THEN pg_last_xact_replay_timestamp() - interval '1 minute'
    ELSE clock_timestamp() END) * 1000000)::bigint AS until,
  EXISTS (
    SELECT FROM {cell}.payment_rail_profiles f
    WHERE f.profile ->> 'order' = 'STRICT' OR f.profile ? 'order_participants') AS ordered
