CREATE TEMPORARY TABLE railhead_prove_attempts ON COMMIT DROP AS
WITH triers (role, prep, wanted) AS (
  VALUES
{triers}
),
statements AS (
{attempts}
)
SELECT t.role, s.verb, s.kind, s.name, s.col, s.statement, t.prep, t.wanted
FROM triers t
CROSS JOIN statements s;
