-- Every call of the HTTP API's role about one participant's instruction, with each token that does
-- not allow it, as statements. A call that the database refuses because of the token, or that finds
-- nothing, ends like a missing privilege. CALL OWN uses the participant's own token, and must find
-- the instruction: otherwise the refusals of the others would prove nothing.
WITH tokens (whose, token) AS (
  VALUES
    ('without a token', 'NULL::bytea'),
    ('by a token that is not known', 'sha256(''not known'')'),
    ('by what the table of tokens holds', 'sha256(sha256(''own''))'),
    ('by another participant''s token', 'sha256(''another'')'),
    ('by an expired token', 'sha256(''expired'')'),
    ('by a revoked token', 'sha256(''revoked'')'),
    ('by a token for reading', 'sha256(''no verb'')'),
    ('by its own token', 'sha256(''own'')')
),
calls (name, reads, query) AS (
  VALUES
    ('api_payments', true,
      'SELECT FROM {cell}.api_payments(%s, NULL, ARRAY[''01920000-0000-7000-8000-00000000cafe''::uuid]) p WHERE p.outbox_id IS NOT NULL'),
    ('api_list', true, 'SELECT FROM {cell}.api_list(%s, NULL, ''railhead_prove_2'', 0, 10)'),
    ('api_list of an instruction', true,
      'SELECT FROM {cell}.api_list(%s, NULL, ''railhead_prove_2'', 0, 10, ''railhead_prove'')'),
    ('api_attempts', true,
      'SELECT FROM {cell}.api_attempts(%s, NULL, ''01920000-0000-7000-8000-00000000cafe'', 0, 10) RIGHT JOIN (SELECT) AS one ON true'),
    ('api_events', true,
      'SELECT FROM {cell}.api_events(ARRAY[%s], ARRAY[NULL::bytea], ARRAY[''{railhead_prove_2}''], ARRAY[NULL::text], '
      'NULL, NULL, NULL, NULL, NULL, NULL, 2000) e WHERE e.kind = ''END'' AND NOT EXISTS (SELECT FROM {cell}.api_events(ARRAY[%1$s], ARRAY[NULL::bytea], '
      'ARRAY[''{railhead_prove_2}''], ARRAY[NULL::text], NULL, NULL, NULL, NULL, NULL, NULL, 0) r WHERE r.kind = '
        '''REFUSED'')'),
    ('api_cancel', false,
      'SELECT {cell}.api_cancel(%s, NULL, ''01920000-0000-7000-8000-00000000cafe'', ''tried by a proof'')'),
    ('api_cancel_status', false,
      'SELECT FROM {cell}.api_cancel_status(%s, NULL, ''01920000-0000-7000-8000-00000000cafe'', ''tried by a proof'')'),
    ('api_enqueue', false,
      'SELECT FROM {cell}.api_enqueue(ARRAY[%s], ARRAY[NULL::bytea], ARRAY[''railhead_prove''], ARRAY[''railhead_prove_2''], '
      'ARRAY[''a key''], ARRAY[''railhead_prove''], ARRAY[''{}''::jsonb], ARRAY[NULL::timestamptz], '
        'ARRAY[NULL::timestamptz], ARRAY[1], ARRAY[''{}''::jsonb], '
      'ARRAY[false], ARRAY[NULL::text]) e WHERE e.error_code NOT IN (''RH030'', ''RH031'')')
)
SELECT CASE WHEN t.whose = 'by its own token' THEN 'CALL OWN' ELSE 'CALL' END AS verb, 'function' AS kind, c.name || ' '
  || t.whose AS name, '' AS col,
  format('DO $try$ BEGIN PERFORM FROM (%s) AS found; IF NOT FOUND THEN RAISE insufficient_privilege; END IF; '
    'EXCEPTION WHEN SQLSTATE ''RH030'' OR SQLSTATE ''RH031'' OR SQLSTATE ''RH010'' OR SQLSTATE ''RH032'' THEN '
      'RAISE insufficient_privilege; END $try$',
    format(c.query, t.token)) AS statement, false AS partition
FROM calls c
CROSS JOIN tokens t
WHERE t.whose NOT IN ('by its own token', 'by a token for reading') OR c.reads = (t.whose = 'by its own token')
