-- The map of cells, as this one knows it. No argument
SELECT m.bucket, m.cell, m.version, m.setting, m.cell_schema, m.here, m.takes, m.directory_id
FROM {cell}.routing_map() m
