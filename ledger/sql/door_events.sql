-- Events for readers whose cursors are at the same place. $1 SHA-256 of each reader's token, $2 of its certificate's
-- key or null, $3 its participants as the text of an array or null, $4 its types likewise, $5 the time from which to
-- begin or null, $6 to $10 system_identifier, xact, outbox_id, attempt_no and attempt_id of the place or null,
-- $11 the most places to read
SELECT e.kind, e.items, e.why, e.at_xact::text, e.at_outbox_id, e.at_attempt_no, e.at_attempt_id, e.in_place,
  e.went_back, e.event_type, e.attempt_id, e.outbox_id, e.of_instruction, e.of_participant, e.sequence_id, e.attempt_no,
  e.state, e.created_at, e.rail_type, e.rail_reference, e.rail_code, e.error_code, e.outcome_unknown
FROM {cell}.api_events($1, $2, $3, $4, $5, $6::text, $7::text::xid8, $8, $9, $10, $11) e
