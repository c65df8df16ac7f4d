-- A comparison of the map on this start of the server, by which enqueues go.
INSERT INTO railhead.payment_cell_checks (system_identifier, timeline, server_started_at, compared, gone)
SELECT s.system_identifier::text, railhead.server_timeline(), pg_postmaster_start_time(), '{}', '{}'
FROM pg_control_system() s;
