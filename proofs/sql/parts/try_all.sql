-- COPY is left out: a DO block can't copy to or from its client. railhead prove attempts it too.
CREATE ROLE railhead_prove_outsider_by_hand;
CREATE SCHEMA railhead_prove_by_hand;
GRANT USAGE, CREATE ON SCHEMA railhead_prove_by_hand TO PUBLIC;
CREATE TEMPORARY TABLE railhead_prove_attempts ON COMMIT DROP AS
WITH roles (name) AS (
  VALUES
{roles},
    ('railhead_prove_outsider_by_hand')
),
granted (role, privilege, kind, name, col) AS (
  VALUES
{grants}
),
statements AS (
{attempts}
)
SELECT r.name AS role, s.verb, s.kind, s.name, s.col, s.statement, '' AS prep,
  CASE
    WHEN s.partition OR s.verb = 'CREATE' THEN 'refused'
    WHEN EXISTS (
      SELECT FROM granted g
      WHERE g.role = r.name AND g.kind = s.kind AND g.name = s.name
        AND CASE s.verb
          -- The server's rule: LOCK for a role that may update, delete from or truncate the
          -- table as a whole.
          WHEN 'LOCK' THEN g.privilege IN ('UPDATE', 'DELETE', 'TRUNCATE') AND g.col = ''
          WHEN 'SELECT' THEN g.privilege = 'SELECT' AND (s.col = '' OR g.col IN ('', s.col))
          ELSE g.privilege = s.verb AND g.col IN ('', s.col) END) THEN 'allowed'
    ELSE 'refused' END AS wanted
FROM roles r
CROSS JOIN statements s
WHERE s.verb NOT LIKE 'COPY%';
