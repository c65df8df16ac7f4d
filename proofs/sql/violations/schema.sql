-- A column, constraint, index or trigger has the name of its table as a prefix.
WITH migrated AS (
  SELECT max(m.version_id) AS version FROM {cell}.schema_migrations m WHERE m.is_applied
),
wanted (line) AS (
  VALUES
{lines}
),
dumped AS (
  SELECT d.line, row_number() OVER () AS place FROM (
{dump}
  ) d (line)
),
heads AS (
  SELECT d.*, max(d.place) FILTER (WHERE d.line NOT LIKE '  %') OVER (ORDER BY d.place) AS head FROM dumped d
),
live AS (
  SELECT CASE WHEN h.place = h.head THEN h.line ELSE split_part(o.line, ' with (', 1) || ': ' || btrim(h.line) END AS line
  FROM heads h
  JOIN dumped o ON o.place = h.head
)
SELECT format('the cell is at migration %s and this build at %s: run the proof with its own build', m.version, {version}) AS violation
FROM migrated m
WHERE m.version IS DISTINCT FROM {version}
UNION ALL
SELECT v.violation
FROM migrated m
CROSS JOIN LATERAL (
  SELECT 'the body of function uuidv7 is not one that a migration creates' AS violation
  WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = to_regnamespace('{cell}') AND p.proname = 'uuidv7' AND md5(p.prosrc) IN ({uuidv7}))
  UNION ALL
  SELECT 'missing: ' || w.line FROM wanted w WHERE NOT EXISTS (SELECT FROM live l WHERE l.line = w.line)
  UNION ALL
  SELECT 'not of this build: ' || l.line FROM live l WHERE NOT EXISTS (SELECT FROM wanted w WHERE w.line = l.line)) v
WHERE m.version = {version}
