-- The cells of the directory that this cell knows, each with the newest server on which it was seen; empty: none, or it
-- is this cell. No argument
SELECT c.name, c.cell_id::text, c.setting, c.cell_schema, c.directory_id::text, c.here, c.reason, c.added_by, c.added_at,
  coalesce(c.rail_key_namespace::text, ''), coalesce(c.joined_with::text, ''), coalesce(s.server, '')
FROM {cell}.payment_cells c
LEFT JOIN LATERAL (
  SELECT k.server FROM {cell}.payment_cell_servers k
  WHERE k.cell = c.name
  ORDER BY k.seen DESC
  LIMIT 1) s ON true
ORDER BY c.added_at, c.name
