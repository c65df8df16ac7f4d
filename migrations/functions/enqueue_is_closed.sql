-- enqueue_is_closed(marks uuid[], rail_type text, participant_id text) -> boolean
--   Whether one of the closed gates in payment_outbox_rules may apply to an instruction;
--   payment_outbox_violation then reads which one. Null or false: none applies.
--
--   The function is one expression, which the planner inlines, and which ends at its first term if
--   no gate is closed. It therefore sets no search_path; its callers do.
-- reads, writes, locks: nothing.   called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.enqueue_is_closed(marks uuid[], rail_type text, participant_id text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
  SELECT $1 IS NOT NULL
    AND $1 && ARRAY[{cell}.gate_mark('cell', '*'), {cell}.gate_mark('rail', $2), {cell}.gate_mark('participant', $3)]
$$;
