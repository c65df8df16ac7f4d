-- Whether the cell allows a second key for one instruction of a participant.
SELECT s.allow_second_key
FROM {cell}.payment_outbox_settings s
WHERE s.singleton
