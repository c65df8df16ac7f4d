-- The first number of each participant among the instructions from $1 on.
SELECT k.participant_id, min(k.sequence_id)
FROM {cell}.payment_outbox_keys k
WHERE k.outbox_id >= $1
GROUP BY k.participant_id
ORDER BY k.participant_id
