-- Ends, with evidence, an instruction that is parked or has contradictory evidence.
-- $1 outbox_id, $2 executed, $3 rail_reference or null, $4 date of the evidence, $5 document, $6 reason,
-- $7 whether it is resolved without an answer of the rail, although the rail answers inquiries
SELECT {cell}.resolve_payment($1, $2, $3, $4::text::date, $5, $6, $7)
