-- learn_cells(directory_id uuid, cells jsonb, changes jsonb [, servers jsonb])
--   -> (learned integer, contradicted integer, later integer, left_behind integer)
--   Appends what another cell of the directory knows and this one does not. cells and changes are rows
--   of payment_cells and payment_cell_changes as JSON, every change of each bucket that differs. It
--   trusts its caller that these rows are durable in the cell that they are of (flush_map). servers names
--   every cell whose map went into the copy, with the server on which it was read (map_server), and is
--   compared with what is known here of that cell (note_cell_server): a copy from before a failover or a
--   restore is refused. Without servers only cells are learned, and no changes. Each bucket is judged by
--   itself, and in doubt this cell does not take it:
--   - A newer change that gives it to another cell ends that this cell takes it, whatever it holds.
--   - A change that gives it to this cell makes this cell take its participants: the cell that gave
--     it has committed the change and refuses them. While this database may have forgotten that it
--     gave the bucket away again (server_is_settled), it is taken by a later call only.
--   - A change that names another cell than the known one of the same version, or other participants that came
--     with the bucket, contradicts it: one of the databases was restored. No cell takes the bucket until settle_buckets says which is right.
--   A repeated call changes nothing.
-- returns: learned, the changes that were appended, or the buckets that are taken now if they are more; contradicted, the buckets that cells contradict each
--          other about; later, the buckets that it has and does not take yet; left_behind, the participants here whose buckets
--          this call has ended: this database was restored, and they have enqueued since.
-- errors:  RH020 this cell is not of the directory, a cell of the copy has the name and not the id,
--          setting, schema or namespace of a known one, or derives other rail keys than this cell, servers are
--          missing or one of them is not the known one (require_cell_servers), the copy does not say what was
--          moved, or a change leaves out the one before it; 25001
--          above READ COMMITTED; 55P03 after 5 s of waiting for a lock.
-- reads:   what require_cell_servers and server_is_settled read; payment_arrivals; participant_outbox_sequences, every row once, if this cell
--          had one of the buckets.
-- writes:  payment_cells, payment_cell_changes, payment_buckets, payment_outbox_rules by its trigger,
--          payment_operator_log.
-- locks:   payment_cell_servers, against a note_cell_server that is under way; the rows of the buckets, for
--          which only the first instructions of their participants wait.
-- called by: operator, name_cell.
CREATE OR REPLACE FUNCTION {cell}.learn_cells(directory_id uuid, cells jsonb, changes jsonb, servers jsonb DEFAULT NULL,
  OUT learned integer, OUT contradicted integer, OUT later integer, OUT left_behind integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here     {cell}.payment_cells;
  touched  integer[];
  disputed integer[]; -- about which two changes contradict each other
  ended    integer[]; -- that this cell took until now
  named    text;
  arrived  integer[]; -- the buckets that it begins to take
BEGIN
  PERFORM {cell}.require_durable_map();
  SELECT c.* INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF here.directory_id IS DISTINCT FROM learn_cells.directory_id THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'this database is not a cell of that directory',
      HINT = 'Add it first: railhead cell add.';
  END IF;
  IF servers IS NULL AND changes <> '[]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'it is not said on which servers the maps were read',
      HINT = 'Copy the map with this version: railhead cell sync.';
  END IF;
  PERFORM {cell}.require_cell_servers(servers);
  SELECT c.name INTO named
  FROM jsonb_to_recordset(cells) AS c(name text, cell_id uuid, setting text, cell_schema text, rail_key_namespace uuid,
    joined_with uuid)
  JOIN {cell}.payment_cells k ON k.name = c.name COLLATE "C" OR k.cell_id = c.cell_id
  WHERE (k.name, k.cell_id, k.setting, k.cell_schema, k.rail_key_namespace, k.joined_with)
    IS DISTINCT FROM (c.name, c.cell_id, c.setting, c.cell_schema, c.rail_key_namespace, c.joined_with)
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s of the copy is not the cell of that name that this cell knows', left(named, 64)),
      HINT = 'Two databases were given one name, or a setting leads to another database.';
  END IF;
  SELECT c.name INTO named
  FROM jsonb_to_recordset(cells) AS c(name text, rail_key_namespace uuid)
  WHERE c.rail_key_namespace IS DISTINCT FROM here.rail_key_namespace
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s of the copy derives other rail keys than this cell', left(named, 64)),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
  END IF;
  INSERT INTO {cell}.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, rail_key_namespace,
    joined_with, reason, added_by, added_at)
  SELECT c.name, c.cell_id, c.setting, c.cell_schema, learn_cells.directory_id, false, c.rail_key_namespace,
    c.joined_with, c.reason, c.added_by, c.added_at
  FROM jsonb_to_recordset(cells) AS c(name text, cell_id uuid, setting text, cell_schema text, rail_key_namespace uuid,
    joined_with uuid, reason text, added_by text, added_at timestamptz)
  ON CONFLICT ON CONSTRAINT payment_cells_pk DO NOTHING;

  touched := ARRAY(
    SELECT DISTINCT c.bucket FROM jsonb_to_recordset(changes) AS c(bucket integer) ORDER BY c.bucket);
  PERFORM FROM {cell}.payment_buckets b
  WHERE b.bucket = ANY (touched) OR b.cell = here.name AND NOT b.mine
  ORDER BY b.bucket FOR UPDATE;
  -- What was settled replaces every change before it.
  WITH given AS (
    SELECT c.* FROM jsonb_to_recordset(changes) AS c(bucket integer, version integer, cell_id uuid, settles boolean,
      digest text)
  ),
  settled AS (
    SELECT s.bucket, max(s.version) AS version
    FROM (
      SELECT g.bucket, g.version FROM given g WHERE g.settles
      UNION ALL
      SELECT k.bucket, k.version FROM {cell}.payment_cell_changes k WHERE k.bucket = ANY (touched) AND k.settles) s
    GROUP BY s.bucket
  )
  SELECT ARRAY(
      SELECT DISTINCT g.bucket
      FROM given g
      JOIN {cell}.payment_cell_changes k ON k.bucket = g.bucket AND k.version = g.version
      LEFT JOIN settled s ON s.bucket = g.bucket
      WHERE (k.cell_id IS DISTINCT FROM g.cell_id OR k.digest <> g.digest AND k.digest <> '' AND g.digest <> '')
        AND g.version >= coalesce(s.version, 0)
      UNION
      SELECT g.bucket
      FROM given g
      LEFT JOIN settled s ON s.bucket = g.bucket
      WHERE g.version >= coalesce(s.version, 0)
      GROUP BY g.bucket, g.version
      HAVING count(DISTINCT g.cell_id) > 1 OR count(DISTINCT nullif(g.digest, '')) > 1
      UNION
      SELECT b.bucket
      FROM {cell}.payment_buckets b
      LEFT JOIN settled s ON s.bucket = b.bucket
      WHERE b.bucket = ANY (touched) AND b.contradicted AND coalesce(s.version, 0) <= b.version)
  INTO disputed;

  IF EXISTS (SELECT FROM jsonb_to_recordset(changes) AS c(digest text) WHERE c.digest IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the copy does not say whether participants were moved with a bucket',
      HINT = 'Use a railhead of the version of the newest cell.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, settles, digest, reason, changed_by, changed_at)
  SELECT c.bucket, c.version, c.cell, c.cell_id, coalesce(c.settles, false), c.digest, c.reason, c.changed_by, c.changed_at
  FROM jsonb_to_recordset(changes) AS c(bucket integer, version integer, cell text, cell_id uuid, settles boolean,
    digest text, reason text, changed_by text, changed_at timestamptz)
  WHERE c.bucket <> ALL (disputed)
  ON CONFLICT ON CONSTRAINT payment_cell_changes_pk DO NOTHING;
  GET DIAGNOSTICS learned = ROW_COUNT;
  IF EXISTS (
    SELECT
    FROM (
      SELECT k.bucket, k.version, max(k.version) OVER of_bucket AS newest,
        coalesce(max(k.version) FILTER (WHERE k.settles) OVER of_bucket, 1) AS oldest
      FROM {cell}.payment_cell_changes k
      WHERE k.bucket = ANY (touched)
      WINDOW of_bucket AS (PARTITION BY k.bucket)) k
    WHERE k.version >= k.oldest
    GROUP BY k.bucket, k.newest, k.oldest
    HAVING count(*) <> k.newest - k.oldest + 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'a change of a bucket leaves out the one before it',
      HINT = 'Copy all changes of the other cell.';
  END IF;
  ended := ARRAY(SELECT b.bucket FROM {cell}.payment_buckets b WHERE b.bucket = ANY (touched) AND b.mine);
  -- Each update makes payment_outbox_rules anew, which every enqueue reads.
  IF disputed <> '{}' THEN
    UPDATE {cell}.payment_buckets b
    SET mine = false, contradicted = true
    WHERE b.bucket = ANY (disputed) AND NOT b.contradicted;
  END IF;
  contradicted := cardinality(disputed);
  IF touched <> '{}' THEN
    UPDATE {cell}.payment_buckets b
    SET cell = k.cell, version = k.version, mine = b.mine AND k.cell_id = here.cell_id, contradicted = false
    FROM (
      SELECT DISTINCT ON (k.bucket) k.bucket, k.cell, k.cell_id, k.version
      FROM {cell}.payment_cell_changes k
      WHERE k.bucket = ANY (touched)
      ORDER BY k.bucket, k.version DESC) k
    WHERE b.bucket = k.bucket AND b.bucket <> ALL (disputed) AND b.version < k.version;
  END IF;
  SELECT count(*) INTO later FROM {cell}.payment_buckets b
  WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted;
  IF later > 0 AND servers IS NOT NULL AND {cell}.server_is_settled() THEN
    -- keep_out_bucket keeps out those whose participants have not all arrived; those that are known are not tried.
    arrived := ARRAY(
      SELECT b.bucket FROM {cell}.payment_buckets b
      WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted AND NOT EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        WHERE k.bucket = b.bucket AND k.version = b.version AND k.digest <> '' AND NOT EXISTS (
          SELECT FROM {cell}.payment_arrivals a
          WHERE a.bucket = k.bucket AND a.version = k.version AND a.digest = k.digest AND a.complete_at IS NOT NULL)));
    IF arrived <> '{}' THEN
      UPDATE {cell}.payment_buckets b SET mine = true WHERE b.bucket = ANY (arrived);
    END IF;
    SELECT count(*) INTO later FROM {cell}.payment_buckets b
    WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted;
    learned := greatest(learned, cardinality(arrived));
  END IF;
  -- What this cell had and has no more was given away by itself, and then forgotten by a restore.
  ended := ARRAY(
    SELECT b.bucket FROM {cell}.payment_buckets b
    WHERE b.bucket = ANY (ended) AND NOT b.mine AND (b.contradicted OR b.cell <> here.name)
    ORDER BY b.bucket);
  left_behind := 0;
  IF ended <> '{}' THEN
    SELECT count(*) INTO left_behind FROM {cell}.participant_outbox_sequences s
    WHERE {cell}.cell_bucket(s.participant_id) = ANY (ended);
  END IF;
  IF learned > 0 OR ended <> '{}' THEN
    PERFORM {cell}.log_operator_act('LEARN_CELLS', here.name, NULL, 'a copy of the map of cells',
      jsonb_build_object('learned', learned, 'contradicted', to_jsonb(disputed), 'later', later,
        'ended', to_jsonb(ended), 'left_behind', left_behind));
  END IF;
END
$$;
