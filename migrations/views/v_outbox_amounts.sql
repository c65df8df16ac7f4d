CREATE OR REPLACE VIEW {cell}.v_outbox_amounts AS
SELECT i.outbox_id, i.payload ->> 'amount' AS amount, i.payload ->> 'currency' AS currency
FROM {cell}.payment_outbox_instructions i;
COMMENT ON VIEW {cell}.v_outbox_amounts IS
  'The money of each instruction, for those who may not read its payload. The view runs with its owner''s rights.';
