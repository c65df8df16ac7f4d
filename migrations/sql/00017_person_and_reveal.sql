-- Migration 17, person and reveal. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function acting_person
CREATE OR REPLACE FUNCTION {cell}.acting_person() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  person CONSTANT text COLLATE "C" := nullif(btrim(current_setting('railhead.person', true)), '');
BEGIN
  IF octet_length(person) > 512 OR person ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the person on whose behalf the login acts (railhead.person) has at most 512 bytes and no control '
        'character',
      HINT = 'Set railhead.person to the name by which the person logged in.';
  END IF;
  RETURN person;
END
$$;
-- end of acting_person

ALTER TABLE {cell}.payment_operator_log ADD COLUMN person text COLLATE "C"
  CONSTRAINT payment_operator_log_person
  CHECK (btrim(person) <> '' AND octet_length(person) <= 512 AND person !~ '[[:cntrl:]]');
ALTER TABLE {cell}.payment_operator_log ALTER COLUMN person SET DEFAULT {cell}.acting_person();
COMMENT ON COLUMN {cell}.payment_operator_log.person IS
  'The person on whose behalf the actor acted, by the actor''s own claim; null without one.';

-- function payload_of
CREATE OR REPLACE FUNCTION {cell}.payload_of(outbox_id uuid, OUT payload jsonb, OUT headers jsonb) RETURNS record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  SELECT p.payload, p.headers INTO payload_of.payload, payload_of.headers
  FROM {cell}.v_outbox_pending p
  WHERE p.outbox_id = payload_of.outbox_id AND p.payload IS NOT NULL;
  IF FOUND THEN
    RETURN;
  END IF;
  SELECT a.payload, a.headers INTO payload_of.payload, payload_of.headers
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id = payload_of.outbox_id AND a.payload IS NOT NULL
  ORDER BY a.attempt_no DESC
  LIMIT 1;
  IF FOUND THEN
    RETURN;
  END IF;
  SELECT i.payload, i.headers INTO payload_of.payload, payload_of.headers
  FROM {cell}.payment_outbox_instructions i
  WHERE i.outbox_id = payload_of.outbox_id;
END
$$;
-- end of payload_of

-- function reveal_payload
CREATE OR REPLACE FUNCTION {cell}.reveal_payload(outbox_id uuid, reason text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  act CONSTANT uuid := {cell}.uuidv7();
BEGIN
  PERFORM {cell}.require_reason(reveal_payload.reason);
  -- One that was never enqueued is not in the registry, and has a payload as well.
  IF NOT EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = reveal_payload.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not known to this cell',
      reveal_payload.outbox_id);
  END IF;
  IF (SELECT c.payload IS NULL FROM {cell}.payload_of(reveal_payload.outbox_id) c) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH016',
      MESSAGE = format('no row has the payload of outbox_id %s', reveal_payload.outbox_id),
      HINT = 'If the partition of its month of payment_outbox_instructions was detached, attach it again.';
  END IF;
  INSERT INTO {cell}.payment_operator_log (act_id, act, subject, outbox_id, reason)
  VALUES (act, 'REVEAL_PAYLOAD',
    coalesce({cell}.instruction_of(reveal_payload.outbox_id), reveal_payload.outbox_id::text),
    reveal_payload.outbox_id, reveal_payload.reason);
  RETURN act;
END
$$;
-- end of reveal_payload

-- function revealed_payload
CREATE OR REPLACE FUNCTION {cell}.revealed_payload(act_id uuid, OUT payload jsonb, OUT headers jsonb) RETURNS record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  of_payment uuid;
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the transaction has written something: it could still take back the row of the operator log',
      HINT = 'Commit reveal_payload first, then call revealed_payload in a transaction of its own.';
  END IF;
  SELECT l.outbox_id INTO of_payment
  FROM {cell}.payment_operator_log l
  WHERE l.act_id = revealed_payload.act_id AND l.act = 'REVEAL_PAYLOAD' AND l.actor = session_user
    AND l.acted_at > clock_timestamp() - interval '1 minute';
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the operator log has no such act of this login in the last minute',
      HINT = 'Call reveal_payload with a reason, and commit it.';
  END IF;
  SELECT c.payload, c.headers INTO revealed_payload.payload, revealed_payload.headers
  FROM {cell}.payload_of(of_payment) c;
  IF revealed_payload.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH016', MESSAGE = format('no row has the payload of outbox_id %s', of_payment),
      HINT = 'If the partition of its month of payment_outbox_instructions was detached, attach it again.';
  END IF;
END
$$;
-- end of revealed_payload

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 17, serves 13'
$$;
-- end of schema_version
