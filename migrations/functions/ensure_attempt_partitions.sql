-- ensure_attempt_partitions(months_ahead integer DEFAULT 3) -> SETOF text
--   Makes the monthly partitions of the archive, payment_outbox_attempts and
--   payment_outbox_instructions, from this month to months_ahead later, each with its
--   triggers and without any grant of its own (access goes through its parent), and a
--   DEFAULT of each. Returns the name of each one made or attached. A DEFAULT that was
--   detached is attached again. One that holds rows is never emptied: it is detached,
--   attached with the months that it holds, and replaced. Where that can't be done it
--   stays as it is, with a WARNING, and so do months that it holds rows of; all others
--   are made.
-- errors:  55P03 when the archive stays locked for 2 s: try again later.
-- reads:   catalogs, the DEFAULT partitions.   writes: DDL.
-- locks:   advisory (this function alone), then SHARE UPDATE EXCLUSIVE on each parent;
--          ACCESS EXCLUSIVE on a parent only while a used DEFAULT is replaced.
-- called by: migration, executor.
CREATE OR REPLACE FUNCTION {cell}.ensure_attempt_partitions(months_ahead integer DEFAULT 3) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '2s'
SET timezone = 'UTC'
AS $$
BEGIN
  IF months_ahead NOT BETWEEN 0 AND 120 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'months_ahead must be 0 to 120';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('{cell}.ensure_attempt_partitions'));
  RETURN QUERY SELECT m.name FROM {cell}.make_attempt_partitions('payment_outbox_attempts', months_ahead) AS m(name);
  RETURN QUERY SELECT m.name FROM {cell}.make_attempt_partitions('payment_outbox_instructions', months_ahead) AS m(name);
END
$$;
