-- enqueue_is_closed(marks uuid[], rail_type text, participant_id text) -> boolean
--   Whether one of the closed gates in payment_outbox_rules may be that of an instruction:
--   then payment_outbox_violation reads which. Null or false: none is.
--
--   One expression that the planner puts in the caller's place, and that ends at its first
--   word where no gate is closed. For that it has no search_path of its own; its callers have.
-- reads, writes, locks: nothing.   called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.enqueue_is_closed(marks uuid[], rail_type text, participant_id text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
  SELECT $1 IS NOT NULL
    AND $1 && ARRAY[{cell}.gate_mark('cell', '*'), {cell}.gate_mark('rail', $2), {cell}.gate_mark('participant', $3)]
$$;
