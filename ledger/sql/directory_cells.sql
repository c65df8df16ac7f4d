-- The cells of the directory that this cell knows. No argument
SELECT c.name, c.cell_id::text, c.setting, c.cell_schema, c.directory_id::text, c.here, c.reason, c.added_by, c.added_at
FROM {cell}.payment_cells c
ORDER BY c.added_at, c.name
