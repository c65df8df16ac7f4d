-- Moves the lines of participants that the profile in force orders on. See the functions.
-- $1 rail_type[] and $2 participant_id[] of the lines that the recorded outcomes concern, $3 rail_type[] of the lanes,
-- $4 since[]: the due time from which their rows are new, $5 after[]: the participant after which the rotation goes on,
-- null: it rests, $6 participants of one step of the rotation, $7 the place in pending behind which it goes on, null: it
-- rests, $8 rows of one step, $9 the claim that follows in the lanes; null: none does
SELECT a.rail_type, a.swept_to, a.ready, a.swept_row
FROM (VALUES (true)) AS one
LEFT JOIN LATERAL {cell}.next_in_order($1::text[], $2::text[], $3::text[], $9::uuid) n ON true
CROSS JOIN LATERAL {cell}.advance_order_lines(coalesce(n.rail_types, '{}'), coalesce(n.participant_ids, '{}'),
  $3::text[], $4::timestamptz[], $5::text[], $6, $7::uuid, $8) a
