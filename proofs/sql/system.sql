-- The system identifier of the cluster; a copy made by pg_dump has another one.
SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s
