-- The events that are to be delivered to an endpoint. $1 its id, $2 the worker's name, $3 epoch, $4 participants or
-- null, $5 types of events or null, both as the text of an array, $6 the most instructions to retry, $7 the most
-- places of the feed to read
SELECT d.kind, d.system_identifier, d.at_xact::text, d.at_outbox_id, d.at_attempt_no, d.at_attempt_id, d.in_place,
  d.went_back, d.behind, d.tries, d.waiting, d.given_up, d.oldest_at, d.notes, d.event_type, d.attempt_id, d.outbox_id,
  d.of_instruction, d.of_participant, d.sequence_id, d.attempt_no, d.state, d.created_at, d.rail_type, d.rail_reference,
  d.rail_code, d.error_code, d.outcome_unknown
FROM {cell}.event_deliveries($1, $2, $3, $4::text::text[], $5::text::text[], $6, $7) d
