-- Which directory of cells a cell is part of, and whether it is another cell than the one with a setting and schema;
-- no row: it has no map.
-- $1 setting, $2 schema
SELECT m.directory_id, bool_or(m.here <> (m.setting = $1 AND m.cell_schema = $2))
FROM {cell}.routing_map() m
GROUP BY m.directory_id
LIMIT 1
