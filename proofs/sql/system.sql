-- The cluster's own name for itself; a copy by pg_dump has another.
SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s
