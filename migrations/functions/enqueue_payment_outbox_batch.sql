-- enqueue_payment_outbox_batch(items jsonb)
--   -> (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
--       replayed boolean, error_code text, error_message text, error_hint text, differs text[],
--       error_field text, error_rule text)
--   Enqueues many instructions in the caller's transaction, from a JSON array of objects whose
--   names are those of the arguments of enqueue_payment_outbox. Returns one row for each item, in
--   the order of the array and numbered from 1. An invalid item has its SQLSTATE, message, hint,
--   field and rule; the others are enqueued. differs is that of enqueue_payment_outbox. The numbers
--   of each participant follow the order of the array.
-- errors:  RH002 items is not an array, RH005 more items than batch_items_max; 40001 and
--          40P01 as enqueue_payment_outbox.
-- reads, writes, locks: as enqueue_payment_outbox_arrays, which waits here.
-- called by: ingest.
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox_batch(items jsonb)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text,
    error_rule text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_nestloop = off
SET jit = off
AS $$
DECLARE
  n_max    CONSTANT integer := (SELECT s.batch_items_max FROM {cell}.payment_outbox_settings s WHERE s.singleton);
  batch    {cell}.outbox_batch_item[];
  readable record;  -- the items that could be parsed, as arrays, with their positions
BEGIN
  IF jsonb_typeof(items) IS DISTINCT FROM 'array' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'items must be a JSON array of instructions';
  END IF;
  IF jsonb_array_length(items) > n_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('a batch holds %s items, more than %s', jsonb_array_length(items), n_max),
      HINT = 'Send it in parts.';
  END IF;
  batch := {cell}.read_outbox_batch(items);
  SELECT array_agg(b.item) AS item, array_agg(b.instruction_id) AS instruction_id,
    array_agg(b.participant_id) AS participant_id, array_agg(b.idempotency_key) AS idempotency_key,
    array_agg(b.rail_type) AS rail_type, array_agg(b.payload) AS payload, array_agg(b.not_before) AS not_before,
    array_agg(b.expires_at) AS expires_at, array_agg(b.priority) AS priority, array_agg(b.headers) AS headers,
    array_agg(b.send_once) AS send_once
  INTO readable
  FROM (SELECT b.* FROM unnest(batch) b WHERE b.error_code IS NULL ORDER BY b.item) b;
  RETURN QUERY
  SELECT b.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, coalesce(e.error_code, b.error_code),
    coalesce(e.error_message, b.error_message), coalesce(e.error_hint, b.error_hint), e.differs,
    coalesce(e.error_field, b.error_field), coalesce(e.error_rule, b.error_rule)
  FROM unnest(batch) b
  LEFT JOIN unnest(readable.item) WITH ORDINALITY AS r(item, nth) ON r.item = b.item
  LEFT JOIN {cell}.enqueue_payment_outbox_arrays(
    coalesce(readable.instruction_id, '{}'), coalesce(readable.participant_id, '{}'),
      coalesce(readable.idempotency_key, '{}'),
    coalesce(readable.rail_type, '{}'), coalesce(readable.payload, '{}'), readable.not_before, readable.expires_at,
    readable.priority, readable.headers, readable.send_once, true) e ON e.item = r.nth
  ORDER BY b.item;
END
$$;
