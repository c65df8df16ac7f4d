-- The system identifier of the server. A copy from a base backup has that of the original.
SELECT s.system_identifier::text FROM pg_control_system() s
