-- Instructions of a participant of the token, in the order of their numbers. $1 SHA-256 of the token, $2 of its
-- certificate's key, $3 participant_id, $4 the number after which to begin, $5 limit, $6 instruction_id or null,
-- $7 the caller's own key or null
SELECT p.item, p.outbox_id, p.sequence_id, p.created_at, p.state, p.certainty, p.attempts, p.changed_at,
  p.next_attempt_at, p.error_code, p.rail_code, p.rail_reference, p.waits_for_person, p.of_instruction,
  p.of_participant, p.own_key, p.on_behalf_of
FROM {cell}.api_list($1, $2, $3, $4, $5, $6, $7) p
