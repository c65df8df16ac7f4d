-- attach_attempt_partition(name text, from_month timestamptz, to_month timestamptz) -> void
--   Makes the table unless it is there, attaches it (as DEFAULT when the months
--   are null), and puts the append-only triggers on it, ENABLE ALWAYS: those of
--   the parent do not fire for a statement that names the partition.
-- writes:  DDL.   locks: SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on
--          the partition and, for its scan, on DEFAULT.   called by: ensure_attempt_partitions.
CREATE OR REPLACE FUNCTION {cell}.attach_attempt_partition(name text, from_month timestamptz, to_month timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  EXECUTE format('CREATE TABLE IF NOT EXISTS {cell}.%I (LIKE {cell}.payment_outbox_attempts INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
  EXECUTE format('REVOKE ALL ON TYPE {cell}.%I FROM PUBLIC', name);
  EXECUTE format('ALTER TABLE {cell}.payment_outbox_attempts ATTACH PARTITION {cell}.%I ', name)
    || CASE WHEN from_month IS NULL THEN 'DEFAULT'
       ELSE format('FOR VALUES FROM (%L) TO (%L)', {cell}.uuidv7_floor(from_month), {cell}.uuidv7_floor(to_month)) END;
  EXECUTE format('ALTER TABLE {cell}.%I ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only_rows', name);
  EXECUTE format(
    'CREATE OR REPLACE TRIGGER payment_outbox_attempts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.%I '
    'FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change()', name);
  EXECUTE format('ALTER TABLE {cell}.%I ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only', name);
  EXECUTE format('ALTER TABLE {cell}.%I SET (autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 200000)', name);
END
$$;
