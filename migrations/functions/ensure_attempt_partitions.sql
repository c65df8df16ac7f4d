-- ensure_attempt_partitions(months_ahead integer DEFAULT 3) -> SETOF text
--   Makes the monthly partitions of payment_outbox_attempts from this month to
--   months_ahead later, each with its triggers and without any grant of its own
--   (access goes through the parent), and a DEFAULT. Returns the name of each
--   one made or attached. A DEFAULT that was detached is attached again. One that
--   holds rows is never emptied: it is detached, attached with the months that it
--   holds, and replaced. Where that can't be done it stays as it is, with a WARNING,
--   and so do months that it holds rows of; all others are made.
-- errors:  55P03 when the archive stays locked for 2 s: try again later.
-- reads:   catalogs, the DEFAULT partition.   writes: DDL.
-- locks:   advisory (this function alone), then SHARE UPDATE EXCLUSIVE on the parent;
--          ACCESS EXCLUSIVE on the parent only while a used DEFAULT is replaced.
-- called by: migration, executor.
CREATE OR REPLACE FUNCTION {cell}.ensure_attempt_partitions(months_ahead integer DEFAULT 3) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '2s'
SET timezone = 'UTC'
AS $$
DECLARE
  parent     CONSTANT regclass := '{cell}.payment_outbox_attempts';
  stem       CONSTANT text := 'payment_outbox_attempts';
  this_month CONSTANT timestamptz := date_trunc('month', clock_timestamp());
  -- Ids of a later time are no times: a clock was wrong, or they were written by hand.
  horizon    CONSTANT timestamptz := this_month + interval '10 years';
  attached   oid;
  month      timestamptz;
  first_used timestamptz;
  last_used  timestamptz;
  holds      text;
BEGIN
  IF months_ahead NOT BETWEEN 0 AND 120 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'months_ahead must be 0 to 120';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('{cell}.ensure_attempt_partitions'));

  SELECT t.partdefid INTO attached FROM pg_partitioned_table t WHERE t.partrelid = parent;
  IF attached = 0 THEN
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem || '_default', NULL, NULL);
      attached := to_regclass('{cell}.payment_outbox_attempts_default');
      RETURN NEXT stem || '_default';
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        '%s_default was detached from %s and holds rows of months that have partitions: it is not attached again', stem, parent),
        HINT = format('Compare its rows with those of the archive, INSERT INTO %s what is missing there, and rename it; the next turn makes another.', parent);
    END;
  END IF;

  IF attached = to_regclass('{cell}.payment_outbox_attempts_default') THEN
    SELECT date_trunc('month', {cell}.uuidv7_time(a.outbox_id)) INTO first_used
    FROM {cell}.payment_outbox_attempts_default a ORDER BY a.outbox_id LIMIT 1;
    SELECT date_trunc('month', {cell}.uuidv7_time(a.outbox_id)) INTO last_used
    FROM {cell}.payment_outbox_attempts_default a ORDER BY a.outbox_id DESC LIMIT 1;
  END IF;
  IF last_used > horizon THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows whose outbox_id is of %s, which is no time of an enqueue; it stays as it is', parent, last_used::date);
  ELSIF EXISTS (
    SELECT FROM generate_series(first_used, last_used, interval '1 month') m(month)
    WHERE to_regclass('{cell}.' || stem || '_' || to_char(m.month, '"y"YYYY"m"MM')) IS NOT NULL)
  THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows from %s to %s, around months that have partitions; it stays as it is',
      parent, first_used::date, last_used::date);
  ELSIF first_used IS NOT NULL THEN
    holds := stem || '_' || to_char(first_used, '"y"YYYY"m"MM') || CASE WHEN first_used < last_used THEN to_char(last_used, '"_y"YYYY"m"MM') ELSE '' END;
    ALTER TABLE {cell}.payment_outbox_attempts DETACH PARTITION {cell}.payment_outbox_attempts_default;
    EXECUTE format('ALTER TABLE {cell}.payment_outbox_attempts_default RENAME TO %I', holds);
    PERFORM {cell}.attach_attempt_partition(holds, first_used, last_used + interval '1 month');
    PERFORM {cell}.attach_attempt_partition(stem || '_default', NULL, NULL);
    RETURN NEXT stem || '_default';
  END IF;

  FOR month IN
    SELECT generate_series(this_month, this_month + make_interval(months => months_ahead), interval '1 month')
  LOOP
    CONTINUE WHEN EXISTS (
      SELECT FROM pg_inherits i
      WHERE i.inhparent = parent
        AND {cell}.partition_holds(i.inhrelid, {cell}.uuidv7_floor(month)));
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem || '_' || to_char(month, '"y"YYYY"m"MM'), month, month + interval '1 month');
      RETURN NEXT stem || '_' || to_char(month, '"y"YYYY"m"MM');
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        'the DEFAULT partition of %s holds rows of %s, which gets no partition', parent, to_char(month, 'YYYY-MM'));
    END;
  END LOOP;
END
$$;
