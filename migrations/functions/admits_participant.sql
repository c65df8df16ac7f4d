-- admits_participant(participant_id text) -> boolean
--   Whether a participant of a bucket of this cell is known here, or may enqueue for the first time:
--   that only while the map is confirmed (map_is_confirmed). A database that went back in time may
--   have forgotten that it gave the bucket away, which it does only while no participant of it has
--   enqueued.
-- reads:   participant_outbox_sequences, by key, and what map_is_confirmed reads.
-- writes, locks: nothing.   called by: takes_participant.
CREATE OR REPLACE FUNCTION {cell}.admits_participant(participant_id text) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = admits_participant.participant_id COLLATE "C") OR {cell}.map_is_confirmed();
END
$$;
