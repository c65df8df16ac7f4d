-- name_cell(name text, setting text, cell_schema text, reason text
--   [, directory_id uuid, cells jsonb, cell_id uuid]) -> uuid
--   Makes this database the cell name of a directory, and returns the id of the directory. Without
--   directory_id it is a new directory, all of whose buckets are this cell's. Otherwise the cell stores
--   the cells of the directory, and takes no bucket: it knows the map once it has learned it (learn_cells),
--   and takes a bucket once one is given to it. With cell_id this database is that of a cell that the copy knows, restored to a time
--   before it had a map: until then it took the participants of all cells. It takes nothing by this
--   call: what the copy gives it is taken by learn_cells, once its server is accepted. A repeated call
--   changes nothing.
--
--   All cells of a directory derive rail keys from one constant, so that a rail recognises a payment
--   whichever of them sends it: a cell that joins takes that of the directory. The row of the cell has
--   the one that its database had before, by which a database that rejoins is recognised.
-- errors:  RH002 a name, setting or schema of another form, or no reason; RH020 this cell has another
--          name, setting, schema or directory, joins a directory although participants have enqueued
--          here or its database may have forgotten some (require_settled_server), the copy knows the
--          name and cell_id is missing, or does not have the name with that cell_id, or knows it as
--          another database, or participants have enqueued with rail keys that are not those of the
--          directory; 25001 above READ COMMITTED; 55P03 after 5 s of waiting for a lock.
-- reads:   participant_outbox_sequences, payment_outbox_settings, payment_cell_servers, payment_arrivals, what
--          require_settled_server reads.
-- writes:  payment_cells, payment_cell_changes, payment_buckets, payment_outbox_settings,
--          payment_outbox_rules by its trigger, payment_operator_log.
-- locks:   every row of payment_buckets, for which only the first instructions of participants wait.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.name_cell(name text, setting text, cell_schema text, reason text,
  directory_id uuid DEFAULT NULL, cells jsonb DEFAULT '[]', cell_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here   {cell}.payment_cells;
  known  record;
  own    uuid; -- the constant from which this database derives rail keys
  shared uuid; -- that of the directory
  chosen CONSTANT uuid := coalesce(name_cell.directory_id, gen_random_uuid());
  own_id CONSTANT uuid := coalesce(name_cell.cell_id, gen_random_uuid());
BEGIN
  PERFORM {cell}.require_reason(name_cell.reason);
  PERFORM {cell}.require_durable_map();
  IF (name_cell.name COLLATE "C" ~ '^[a-z][a-z0-9_-]{0,62}$' AND name_cell.setting COLLATE "C" ~ '^[A-Z][A-Z0-9_]{0,62}$'
    AND name_cell.cell_schema COLLATE "C" ~ '^[a-z_][a-z0-9_]{0,62}$') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a cell has a name of lower-case letters, digits, - and _, a schema, and a setting of capitals, digits and _',
      HINT = 'Connection settings are named, and never given: they hold secrets.';
  END IF;
  PERFORM FROM {cell}.payment_buckets b ORDER BY b.bucket FOR UPDATE;
  SELECT c.* INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF FOUND THEN
    IF (here.name, here.setting, here.cell_schema, here.directory_id, here.cell_id) IS DISTINCT FROM
      (name_cell.name, name_cell.setting, name_cell.cell_schema, coalesce(name_cell.directory_id, here.directory_id),
        coalesce(name_cell.cell_id, here.cell_id))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('this database is cell %s (setting %s, schema %s) of directory %s already', here.name,
          here.setting, here.cell_schema, here.directory_id),
        HINT = 'A cell keeps its name, its setting, its schema and its directory.';
    END IF;
    RETURN here.directory_id;
  END IF;
  SELECT c.* INTO known
  FROM jsonb_to_recordset(name_cell.cells) AS c(name text, cell_id uuid, setting text, cell_schema text,
    joined_with uuid)
  WHERE c.name = name_cell.name;
  SELECT s.rail_key_namespace INTO own FROM {cell}.payment_outbox_settings s;
  shared := own;
  IF name_cell.directory_id IS NOT NULL THEN
    SELECT CASE WHEN count(DISTINCT c.rail_key_namespace) = 1 AND count(*) = count(c.rail_key_namespace)
      THEN min(c.rail_key_namespace::text)::uuid END INTO shared
    FROM jsonb_to_recordset(name_cell.cells) AS c(rail_key_namespace uuid);
    IF shared IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'the cells of the directory derive different rail keys',
        HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
    END IF;
  END IF;
  IF name_cell.cell_id IS NULL THEN
    IF known.name IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the directory has a cell %s already', name_cell.name),
        HINT = 'Choose another name. If this is its database, restored to a time before it joined: railhead cell rejoin.';
    END IF;
    PERFORM {cell}.require_settled_server('joining a directory');
    -- A new statement: it sees every participant whose transaction the locks have waited for.
    IF name_cell.directory_id IS NOT NULL AND EXISTS (SELECT FROM {cell}.participant_outbox_sequences) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'participants have enqueued in this cell, whose buckets the directory has given to other cells',
        HINT = 'A cell joins a directory while it is empty: payments stay in the cell where they were enqueued.';
    END IF;
  ELSIF (known.cell_id, known.setting, known.cell_schema) IS DISTINCT FROM
    (name_cell.cell_id, name_cell.setting, name_cell.cell_schema) OR name_cell.directory_id IS NULL
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'the copy of the directory does not have this cell',
      HINT = 'Copy the directory of a cell that has one, and rejoin with the setting and schema that it has.';
  ELSIF own IS DISTINCT FROM known.joined_with THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this database is not that of cell %s: it was never one from which that cell was made', name_cell.name),
      HINT = 'Look where the connection setting leads. A cell whose database is lost can''t rejoin with another one.';
  END IF;
  IF own <> shared THEN
    -- A new statement: it sees every participant whose transaction the locks have waited for.
    IF EXISTS (SELECT FROM {cell}.participant_outbox_sequences) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'participants have enqueued in this database since it was restored to a time before it joined, with other '
          'rail keys than those of the directory',
        HINT = 'Restore it again, to a time after it joined.';
    END IF;
    UPDATE {cell}.payment_outbox_settings SET rail_key_namespace = shared;
  END IF;
  INSERT INTO {cell}.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, rail_key_namespace,
    joined_with, reason)
  VALUES (name_cell.name, own_id, name_cell.setting, name_cell.cell_schema, chosen, true, shared,
    CASE WHEN name_cell.cell_id IS NULL THEN own ELSE known.joined_with END, name_cell.reason);
  IF name_cell.directory_id IS NULL THEN
    INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, reason)
    SELECT b.bucket, 1, name_cell.name, own_id, name_cell.reason FROM {cell}.payment_buckets b;
    UPDATE {cell}.payment_buckets SET cell = name_cell.name, version = 1, mine = true;
  ELSE
    UPDATE {cell}.payment_buckets SET mine = false;
    PERFORM {cell}.learn_cells(chosen, name_cell.cells, '[]');
  END IF;
  PERFORM {cell}.log_operator_act(CASE WHEN name_cell.cell_id IS NULL THEN 'ADD_CELL' ELSE 'REJOIN_CELL' END,
    name_cell.name, NULL, name_cell.reason, jsonb_build_object('setting', name_cell.setting, 'cell_schema',
      name_cell.cell_schema, 'directory_id', chosen, 'cell_id', own_id));
  RETURN chosen;
END
$$;
