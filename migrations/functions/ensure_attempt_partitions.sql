-- ensure_attempt_partitions(months_ahead integer DEFAULT 3) -> SETOF text
--   Creates the monthly partitions of the archive (payment_outbox_attempts and
--   payment_outbox_instructions) from this month to months_ahead months later, and a DEFAULT
--   partition of each. Each partition gets its triggers and no grant of its own: access is through
--   the parent. Returns the name of each partition that was created or attached.
--
--   A DEFAULT partition that was detached is attached again. One that holds rows is never emptied:
--   it is detached, attached for the months of its rows, and replaced. If that is not possible, it
--   stays as it is, with a WARNING, and so do months of which it holds rows; all other partitions
--   are created. None is from before the oldest month attached, by a clock that was set back or by
--   rows in DEFAULT: payments of months that were detached would count as lost.
-- errors:  55P03 if the archive stays locked for 100 ms: try again later. Claims and records queue behind the wait.
-- reads:   catalogs, schema_migrations, the DEFAULT partitions; of a cell that was made while the clock was ahead
--          payment_outbox_keys, payment_outbox_attempts and payment_outbox_instructions.   writes: DDL.
-- locks:   advisory (this function alone), then SHARE UPDATE EXCLUSIVE on each parent;
--          ACCESS EXCLUSIVE on a parent only while a used DEFAULT is replaced.
-- called by: migration, executor.
CREATE OR REPLACE FUNCTION {cell}.ensure_attempt_partitions(months_ahead integer DEFAULT 3) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '100ms'
SET timezone = 'UTC'
AS $$
BEGIN
  IF months_ahead NOT BETWEEN 0 AND 120 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'months_ahead must be 0 to 120';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('{cell}.ensure_attempt_partitions'));
  RETURN QUERY SELECT m.name FROM {cell}.make_attempt_partitions('payment_outbox_attempts', months_ahead) AS m(name);
  RETURN QUERY SELECT m.name FROM {cell}.make_attempt_partitions('payment_outbox_instructions', months_ahead)
    AS m(name);
END
$$;
