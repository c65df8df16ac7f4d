-- Rows that answer, repair or act, after a place of the feed, including those ahead of it. Filters
-- only drop rows and do not choose the index. Claims are left out: the answer to a claim names its
-- time and its worker.
-- $1 system_identifier, $2 xact, $3 outbox_id, $4 attempt_no, $5 attempt_id of the place or null,
-- $6 rail_type or null, $7 participant_id or null, $8 state or null, $9 limit
SELECT p.went_back, s.system_identifier::text, f.at_xact::text, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id,
  f.settled, f.attempt_id, f.outbox_id, coalesce(f.instruction_id, ''), coalesce(f.participant_id, ''),
  coalesce(f.rail_type, ''), coalesce(f.attempt_no, 0), coalesce(f.state, ''), f.answers_attempt_no, f.created_at,
  f.claimed_at, f.completed_at, f.result, f.rail_reference, f.rail_code, f.error_code, f.latency_ms, f.worker_id,
  coalesce(f.outcome_unknown, false), f.outbox_id IS NOT NULL AND ($6::text IS NULL OR f.rail_type = $6)
    AND ($7::text IS NULL OR f.participant_id = $7)
    AND ($8::text IS NULL OR f.state = $8) AS wanted
FROM {cell}.outcome_place($2::text::xid8, $3, $4, $5, $1::text) p
CROSS JOIN pg_control_system() s
LEFT JOIN LATERAL {cell}.outcome_feed(p.to_xact, p.to_outbox_id, p.to_attempt_no, $9, true) f ON true
