-- api_note_uses(token_sha256s bytea[], uses bigint[], refused bigint[]) -> void
--   Adds to the counters of tokens the number of times that each was used, and was refused because
--   it was not in force, since the last call. Unknown tokens are left out.
-- errors:  RH005 more than 1,000 tokens.
-- reads:   payment_api_tokens.
-- writes:  payment_api_uses.   locks: its rows, by token_id.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_note_uses(token_sha256s bytea[], uses bigint[], refused bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF cardinality(token_sha256s) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'more than 1000 tokens at once', HINT = 'Note them in parts.';
  END IF;
  INSERT INTO {cell}.payment_api_uses AS u (token_id, uses, refused, last_used_at, last_refused_at)
  SELECT t.token_id, sum(a.uses), sum(a.refused), CASE WHEN sum(a.uses) > 0 THEN clock_timestamp() END,
    CASE WHEN sum(a.refused) > 0 THEN clock_timestamp() END
  FROM unnest($1, $2, $3) AS a(token, uses, refused)
  JOIN {cell}.payment_api_tokens t ON t.token_digest = sha256(a.token)
  WHERE a.uses >= 0 AND a.refused >= 0
  GROUP BY t.token_id
  ORDER BY t.token_id
  ON CONFLICT ON CONSTRAINT payment_api_uses_pk DO UPDATE SET uses = u.uses + excluded.uses,
    refused = u.refused + excluded.refused, last_used_at = coalesce(excluded.last_used_at, u.last_used_at),
    last_refused_at = coalesce(excluded.last_refused_at, u.last_refused_at);
END
$$;
