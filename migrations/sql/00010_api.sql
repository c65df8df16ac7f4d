-- Access of callers over HTTP. A call shows a token, and reaches the participants of that token
-- alone. The database holds a digest of the digest of a token.

CREATE TABLE {cell}.payment_api_tokens (
  token_digest        bytea       NOT NULL,
  created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at          timestamptz NOT NULL,
  revoked_at          timestamptz,
  requests_per_minute integer,
  token_id            text COLLATE "C" NOT NULL,
  name                text COLLATE "C" NOT NULL,
  participants        text[] COLLATE "C" NOT NULL,
  verbs               text[] COLLATE "C" NOT NULL,
  certificate_sha256  bytea,
  created_by          text COLLATE "C" NOT NULL DEFAULT session_user,
  CONSTRAINT payment_api_tokens_pk PRIMARY KEY (token_digest),
  CONSTRAINT payment_api_tokens_digest CHECK (octet_length(token_digest) = 32),
  CONSTRAINT payment_api_tokens_id CHECK (token_id = left(encode(token_digest, 'hex'), 16)),
  CONSTRAINT payment_api_tokens_name CHECK (length(name) BETWEEN 1 AND 128 AND name !~ '[^ -~]' AND name = btrim(name)),
  CONSTRAINT payment_api_tokens_participants CHECK (
    cardinality(participants) BETWEEN 1 AND 1000 AND array_position(participants, NULL) IS NULL),
  CONSTRAINT payment_api_tokens_verbs CHECK (
    cardinality(verbs) BETWEEN 1 AND 3 AND verbs <@ ARRAY['ENQUEUE', 'READ', 'CANCEL'] COLLATE "C"
      AND array_position(verbs, NULL) IS NULL),
  CONSTRAINT payment_api_tokens_quota CHECK (requests_per_minute BETWEEN 1 AND 10000000),
  CONSTRAINT payment_api_tokens_expiry CHECK (isfinite(expires_at) AND expires_at <= created_at + interval '400 days'),
  CONSTRAINT payment_api_tokens_certificate CHECK (octet_length(certificate_sha256) = 32)
);
COMMENT ON TABLE {cell}.payment_api_tokens IS
  'Tokens of the HTTP API, with their participants and verbs. Only the owner may read the table. A token that is '
  'no longer in force stays in it.';
COMMENT ON COLUMN {cell}.payment_api_tokens.token_digest IS
  'SHA-256 of the SHA-256 of the token. Functions take the inner digest, so that a copy of this table grants no '
  'access.';
COMMENT ON COLUMN {cell}.payment_api_tokens.token_id IS
  'The first 16 hexadecimal digits of the digest: the public name of the token.';
COMMENT ON COLUMN {cell}.payment_api_tokens.certificate_sha256 IS
  'SHA-256 of the public key (SPKI) of the client certificate to which the token is bound; null if it is bound to '
  'none.';
COMMENT ON COLUMN {cell}.payment_api_tokens.requests_per_minute IS
  'The quota of the token in each API process; null if it has none.';

CREATE TABLE {cell}.payment_api_calls (
  outbox_id       uuid NOT NULL,
  participant_id  text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  token_id        text COLLATE "C" NOT NULL,
  on_behalf_of    text COLLATE "C",
  CONSTRAINT payment_api_calls_pk PRIMARY KEY (outbox_id),
  CONSTRAINT payment_api_calls_once UNIQUE (participant_id, idempotency_key)
);
COMMENT ON TABLE {cell}.payment_api_calls IS
  'One row for each instruction that was enqueued over HTTP: the caller''s own key, of which the registry holds a '
  'digest, and the token of the call.';
COMMENT ON COLUMN {cell}.payment_api_calls.on_behalf_of IS 'The principal behind the call, as the caller named it.';

CREATE TABLE {cell}.payment_api_uses (
  token_id        text COLLATE "C" NOT NULL,
  uses            bigint NOT NULL DEFAULT 0,
  refused         bigint NOT NULL DEFAULT 0,
  last_used_at    timestamptz,
  last_refused_at timestamptz,
  CONSTRAINT payment_api_uses_pk PRIMARY KEY (token_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE {cell}.payment_api_uses IS
  'The number of times that each token was used, and was refused because it was expired or revoked. API processes '
  'add to the counters every few seconds.';

CREATE TRIGGER payment_api_calls_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_api_calls
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_api_calls ENABLE ALWAYS TRIGGER payment_api_calls_append_only;
-- A token can be revoked once. It is not changed otherwise, and never deleted.
{include keep_api_token}
CREATE TRIGGER payment_api_tokens_kept
  BEFORE UPDATE ON {cell}.payment_api_tokens
  FOR EACH ROW EXECUTE FUNCTION {cell}.keep_api_token();
ALTER TABLE {cell}.payment_api_tokens ENABLE ALWAYS TRIGGER payment_api_tokens_kept;
CREATE TRIGGER payment_api_tokens_permanent
  BEFORE DELETE OR TRUNCATE ON {cell}.payment_api_tokens
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_api_tokens ENABLE ALWAYS TRIGGER payment_api_tokens_permanent;
CREATE TRIGGER payment_api_uses_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_api_uses
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_api_uses ENABLE ALWAYS TRIGGER payment_api_uses_no_truncate;

{include api_key_digest}
{include api_token_refusal}
{include require_api_token}
{include require_api_payment}
{include api_token}
{include api_enqueue}
{include api_payments}
{include api_list}
{include api_attempts}
{include api_cancel}
{include api_note_uses}
{include beat_api}
{include create_api_token}
{include revoke_api_token}
{include api_tokens}
