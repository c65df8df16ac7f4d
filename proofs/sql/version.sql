-- The newest migration of the cell.
SELECT coalesce(max(m.version_id), 0)::bigint FROM {cell}.schema_migrations m WHERE m.is_applied
