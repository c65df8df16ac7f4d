-- make_attempt_partitions(stem text, months_ahead integer) -> SETOF text
--   Does the work of ensure_attempt_partitions for the one table of the archive that stem names.
--   A month that ends at or before the oldest one attached is neither created nor attached: a payment
--   from before that bound counts as retired, and one of any other month without rows as lost. The
--   exception is a cell that was made while the clock was ahead, of which no month has left.
-- reads:   catalogs, schema_migrations, payment_outbox_keys, payment_outbox_attempts, payment_outbox_instructions.
-- errors, writes, locks: as there.   called by: ensure_attempt_partitions.
CREATE OR REPLACE FUNCTION {cell}.make_attempt_partitions(stem text, months_ahead integer) RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
  parent     CONSTANT regclass := '{cell}.' || stem;
  remnant    CONSTANT text := stem || '_default';
  this_month CONSTANT timestamptz := date_trunc('month', clock_timestamp());
  -- A later id does not hold a real time: a clock was wrong, or the id was written by hand.
  horizon    CONSTANT timestamptz := this_month + interval '10 years';
  -- goose writes the time in the zone of its session, which is at most a day off.
  made_in    CONSTANT timestamptz := (
    SELECT date_trunc('month', min(v.tstamp)::timestamptz) FROM {cell}.schema_migrations v WHERE v.version_id > 0);
  oldest     uuid := (
    SELECT min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent);
  attached   oid;
  month      timestamptz;
  first_used timestamptz;
  last_used  timestamptz;
  holds      text;
BEGIN
  -- The cell was made while the clock was ahead, and no month has left: each instruction from before the oldest one
  -- still has a row.
  IF oldest > {cell}.uuidv7_floor(this_month) AND oldest <= {cell}.uuidv7_floor(made_in) THEN
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id < oldest
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = k.outbox_id)
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id))
    THEN
      oldest := NULL;
    END IF;
  END IF;
  SELECT t.partdefid INTO attached FROM pg_partitioned_table t WHERE t.partrelid = parent;
  IF attached = 0 THEN
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem, remnant, NULL, NULL);
      attached := to_regclass('{cell}.' || remnant);
      RETURN NEXT remnant;
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        '%s_default was detached from %s and holds rows of months that have partitions: it is not attached again', stem,
          parent),
        HINT = format('Compare its rows with those of the archive, INSERT INTO %s what is missing there, and rename it; the next run creates another one.', parent);
    END;
  END IF;

  IF attached = to_regclass('{cell}.' || remnant) THEN
    EXECUTE format('SELECT date_trunc(''month'', {cell}.uuidv7_time(r.outbox_id)) FROM {cell}.%I r ORDER BY r.outbox_id LIMIT 1', remnant)
    INTO first_used;
    EXECUTE format('SELECT date_trunc(''month'', {cell}.uuidv7_time(r.outbox_id)) FROM {cell}.%I r ORDER BY r.outbox_id DESC LIMIT 1', remnant)
    INTO last_used;
  END IF;
  IF last_used > horizon THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows whose outbox_id is of %s, which can''t be the time of an enqueue; it stays as it is', parent, last_used::date);
  ELSIF {cell}.uuidv7_floor(first_used) < oldest THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows of %s, before the oldest month attached; it stays as it is', parent,
        to_char(first_used, 'YYYY-MM')),
      HINT = 'The month was detached, or a clock was behind. As a partition it would make each payment of a month that left count as lost.';
  ELSIF EXISTS (
    SELECT FROM generate_series(first_used, last_used, interval '1 month') m(month)
    WHERE to_regclass('{cell}.' || stem || '_' || to_char(m.month, '"y"YYYY"m"MM')) IS NOT NULL)
  THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows from %s to %s, around months that have partitions; it stays as it is',
      parent, first_used::date, last_used::date);
  ELSIF first_used IS NOT NULL THEN
    holds := stem || '_' || to_char(first_used, '"y"YYYY"m"MM') || CASE WHEN first_used < last_used
      THEN to_char(last_used, '"_y"YYYY"m"MM') ELSE '' END;
    EXECUTE format('ALTER TABLE %s DETACH PARTITION {cell}.%I', parent, remnant);
    EXECUTE format('ALTER TABLE {cell}.%I RENAME TO %I', remnant, holds);
    PERFORM {cell}.attach_attempt_partition(stem, holds, first_used, last_used + interval '1 month');
    PERFORM {cell}.attach_attempt_partition(stem, remnant, NULL, NULL);
    RETURN NEXT remnant;
  END IF;

  IF {cell}.uuidv7_floor(this_month + interval '1 month') <= oldest THEN
    RAISE WARNING USING MESSAGE = format(
      'the clock is in %s, before the oldest month of %s, which is %s: no earlier partition is created',
        to_char(this_month, 'YYYY-MM'), parent, to_char({cell}.uuidv7_time(oldest), 'YYYY-MM')),
      HINT = 'Compare the clock of the server with another one.';
  END IF;
  FOR month IN
    SELECT generate_series(this_month, this_month + make_interval(months => months_ahead), interval '1 month')
  LOOP
    CONTINUE WHEN {cell}.uuidv7_floor(month + interval '1 month') <= oldest OR EXISTS (
      SELECT FROM pg_inherits i
      WHERE i.inhparent = parent
        AND {cell}.partition_holds(i.inhrelid, {cell}.uuidv7_floor(month)));
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem, stem || '_' || to_char(month, '"y"YYYY"m"MM'), month,
        month + interval '1 month');
      RETURN NEXT stem || '_' || to_char(month, '"y"YYYY"m"MM');
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        'the DEFAULT partition of %s holds rows of %s, which gets no partition', parent, to_char(month, 'YYYY-MM'));
    END;
  END LOOP;
END
$$;
