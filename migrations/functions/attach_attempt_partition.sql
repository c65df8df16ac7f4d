-- attach_attempt_partition(stem text, name text, from_month timestamptz, to_month timestamptz) -> void
--   Creates the table if it does not exist, attaches it to the parent that stem names (as the
--   DEFAULT partition if the months are null), and creates the append-only triggers on it with
--   ENABLE ALWAYS. The triggers of the parent do not fire for a statement that names the partition.
-- writes:  DDL.   locks: SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on
--          the partition and, for its scan, on DEFAULT.   called by: make_attempt_partitions.
CREATE OR REPLACE FUNCTION {cell}.attach_attempt_partition(stem text, name text, from_month timestamptz,
  to_month timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  EXECUTE format('CREATE TABLE IF NOT EXISTS {cell}.%I (LIKE {cell}.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name,
    stem);
  EXECUTE format('REVOKE ALL ON TYPE {cell}.%I FROM PUBLIC', name);
  EXECUTE format('ALTER TABLE {cell}.%I ATTACH PARTITION {cell}.%I ', stem, name)
    || CASE WHEN from_month IS NULL THEN 'DEFAULT'
       ELSE format('FOR VALUES FROM (%L) TO (%L)', {cell}.uuidv7_floor(from_month), {cell}.uuidv7_floor(to_month)) END;
  EXECUTE format('ALTER TABLE {cell}.%I ENABLE ALWAYS TRIGGER %I', name, stem || '_append_only_rows');
  EXECUTE format(
    'CREATE OR REPLACE TRIGGER %I BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.%I '
    'FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change()', stem || '_append_only', name);
  EXECUTE format('ALTER TABLE {cell}.%I ENABLE ALWAYS TRIGGER %I', name, stem || '_append_only');
  EXECUTE format('ALTER TABLE {cell}.%I SET (autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 200000)', name);
END
$$;
