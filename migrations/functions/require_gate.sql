-- require_gate(scope text, name text) -> void
--   Raises RH002 if no gate has that scope and name, RH003 for an unknown rail and RH010 for an
--   unknown participant, so that a misspelt name is not accepted silently. One that was moved to
--   another cell is known, and so is one whose gate is closed. A cell of a directory knows no participant of a
--   bucket that it does not take, and accepts each of them: the gate has to be closed before the bucket of a lost
--   cell is settled for this one (settle_buckets).
-- reads:   payment_rails, participant_outbox_sequences, payment_packed_participants, payment_closed_gates,
--          payment_buckets.   locks: nothing.
-- called by: close_enqueue, open_enqueue.
CREATE OR REPLACE FUNCTION {cell}.require_gate(scope text, name text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF scope = 'cell' AND name = '*' THEN
    RETURN;
  ELSIF scope = 'rail' THEN
    IF NOT EXISTS (SELECT FROM {cell}.payment_rails r WHERE r.rail_type = require_gate.name
      AND r.profile_version IS NOT NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
        coalesce(quote_literal(left(name, 64)), 'NULL')),
        HINT = 'Use a rail_type of payment_rails; the whole cell is scope cell, name *.';
    END IF;
  ELSIF scope = 'participant' THEN
    IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s WHERE s.participant_id = require_gate.name)
      AND NOT EXISTS (SELECT FROM {cell}.payment_packed_participants p WHERE p.participant_id = require_gate.name)
      AND NOT EXISTS (SELECT FROM {cell}.payment_closed_gates g
        WHERE g.scope = 'participant' AND g.name = require_gate.name)
      AND NOT EXISTS (SELECT FROM {cell}.payment_buckets b
        WHERE b.bucket = {cell}.cell_bucket(require_gate.name) AND NOT b.mine) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
        HINT = 'Check the participant_id.';
    END IF;
  ELSE
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'there is no such gate',
      HINT = 'Scope and name are: rail and a rail_type, participant and a participant_id, or cell and *.';
  END IF;
END
$$;
