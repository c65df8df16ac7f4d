-- Deletes claims in flight of which every member was answered, or has left the archive with its
-- month. A slow path, a dead worker or retention leaves such claims. $1 claim_id[]; null: the
-- oldest $2 claims
DELETE FROM {cell}.payment_outbox_claims f
WHERE f.claim_id = ANY (coalesce($1::uuid[], ARRAY(
    SELECT g.claim_id FROM {cell}.payment_outbox_claims g ORDER BY g.claimed_at LIMIT $2)))
  AND NOT EXISTS (
    SELECT FROM unnest(f.outbox_ids, f.attempt_nos) AS m(outbox_id, attempt_no)
    WHERE {is_open m}
      AND ((
        SELECT true FROM {cell}.payment_outbox_attempts c
        WHERE c.outbox_id = m.outbox_id AND c.attempt_no = m.attempt_no
        LIMIT 1) OR NOT {cell}.left_the_archive(m.outbox_id)))
