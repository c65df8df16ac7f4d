{plant};
CREATE TEMPORARY TABLE railhead_prove_attempts ON COMMIT DROP AS
WITH statements AS (
{attempts}
)
SELECT 'railhead_api' AS role, s.verb, s.kind, s.name, s.col, s.statement, '' AS prep,
  CASE WHEN s.verb = 'CALL OWN' THEN 'allowed' ELSE 'refused' END AS wanted
FROM statements s;
