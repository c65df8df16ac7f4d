-- create_api_token(token_digest bytea, name text, participants text[], verbs text[], expires_at timestamptz,
--                  reason text
--                  [, requests_per_minute integer, certificate_sha256 bytea]) -> text
--   Puts a token in force and returns its token_id. The caller generates the token and passes
--   SHA-256 of its SHA-256: the server never receives the token.
-- errors:  RH002 without a reason, or if a constraint of the table refuses the values.
-- writes:  payment_api_tokens, payment_operator_log.   locks: nothing.   called by: owner.
CREATE OR REPLACE FUNCTION {cell}.create_api_token(token_digest bytea, name text, participants text[], verbs text[],
  expires_at timestamptz, reason text,
  requests_per_minute integer DEFAULT NULL, certificate_sha256 bytea DEFAULT NULL) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  id   CONSTANT text := left(encode($1, 'hex'), 16);
  bad  text;
BEGIN
  PERFORM {cell}.require_reason(create_api_token.reason);
  IF create_api_token.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the token would already be expired',
      HINT = 'Give a later expiry, at most 400 days ahead.';
  END IF;
  SELECT p.name INTO bad FROM unnest($3) AS p(name)
  WHERE p.name IS NULL OR length(p.name) NOT BETWEEN 1 AND 128 OR p.name COLLATE "C" ~ '[^ -~]'
    OR p.name <> btrim(p.name) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a participant must be 1 to 128 printable ASCII characters without spaces at its ends',
      HINT = 'Use the participant_id of the enqueued instructions.';
  END IF;
  BEGIN
    INSERT INTO {cell}.payment_api_tokens (token_digest, token_id, name, participants, verbs, expires_at,
      requests_per_minute, certificate_sha256)
    VALUES ($1, id, $2, $3, $4, $5, $7, $8);
  EXCEPTION WHEN check_violation OR not_null_violation THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the token is not valid: ' || SQLERRM,
      HINT = 'It needs a name, participants, verbs among ENQUEUE, READ and CANCEL, and an expiry at most 400 days '
        'ahead.';
  END;
  PERFORM {cell}.log_operator_act('CREATE_TOKEN', id, NULL, create_api_token.reason,
    jsonb_strip_nulls(jsonb_build_object(
    'name', $2, 'participants', $3, 'verbs', $4, 'expires_at', $5, 'requests_per_minute', $7, 'certificate_sha256',
      encode($8, 'hex'))));
  RETURN id;
END
$$;
