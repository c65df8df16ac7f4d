-- refresh_outbox_rules() -> trigger
--   Rebuilds payment_outbox_rules in the transaction that changed one of its source tables, so that
--   a session that sees the change sees it in payment_outbox_rules too. The proof "guards" compares
--   them.
--
--   A separate statement locks the row before the source tables are read. If they were read before
--   the lock was granted, the rebuilt row would undo a change that another transaction had just
--   committed.
-- errors:  40001 above READ COMMITTED if the row has changed since the snapshot.
-- reads:   payment_outbox_settings, payment_forbidden_keys, payment_currencies, payment_rails,
--          payment_closed_gates, payment_cells, payment_buckets, payment_cell_checks,
--          and what required_fields and server_went_back read.
-- writes:  payment_outbox_rules.   locks: its row, until the transaction ends.
-- called by: the triggers of those tables.
CREATE OR REPLACE FUNCTION {cell}.refresh_outbox_rules() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  INSERT INTO {cell}.payment_outbox_rules AS r
    (allow_second_key, rail_key_namespace, payload_bytes_max, headers_bytes_max, payload_depth_max, refuse_card_numbers,
      rail_types, forbidden, digits,
      required, closed_gates, own_buckets, confirmed_start, confirmed_table)
  SELECT s.allow_second_key, s.rail_key_namespace, s.payload_bytes_max, s.headers_bytes_max, s.payload_depth_max,
    s.refuse_card_numbers, ARRAY(SELECT p.rail_type FROM {cell}.payment_rails p WHERE p.profile_version IS NOT NULL
      ORDER BY p.rail_type),
    ARRAY(
      SELECT '%' || replace(replace(replace(f.key, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_') || '":%'
      FROM {cell}.payment_forbidden_keys f ORDER BY f.key),
    (SELECT coalesce(jsonb_object_agg(c.code, c.exponent), '{}') FROM {cell}.payment_currencies c),
    {cell}.required_fields(),
    (SELECT array_agg({cell}.gate_mark(g.scope, g.name) ORDER BY g.scope, g.name) FROM {cell}.payment_closed_gates g),
    (SELECT CASE WHEN EXISTS (SELECT FROM {cell}.payment_cells)
        THEN string_agg((b.mine AND NOT {cell}.bucket_is_leaving(b.version, b.leaving))::integer::text, '' ORDER BY b.bucket)::bit(1024) END
     FROM {cell}.payment_buckets b),
    CASE WHEN EXISTS (
      SELECT FROM {cell}.payment_cell_checks k
      WHERE k.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
        AND k.timeline = {cell}.server_timeline() AND k.server_started_at = pg_postmaster_start_time()
        AND k.table_oid = k.tableoid AND k.database_oid = {cell}.database_oid()
        AND k.went_back = {cell}.server_went_back())
      THEN pg_postmaster_start_time() END,
    '{cell}.payment_outbox_rules'::regclass
  FROM {cell}.payment_outbox_settings s
  ON CONFLICT ON CONSTRAINT payment_outbox_rules_pk DO UPDATE SET
    allow_second_key = excluded.allow_second_key,
    rail_key_namespace = excluded.rail_key_namespace,
    payload_bytes_max = excluded.payload_bytes_max,
    headers_bytes_max = excluded.headers_bytes_max,
    payload_depth_max = excluded.payload_depth_max,
    refuse_card_numbers = excluded.refuse_card_numbers,
    rail_types = excluded.rail_types,
    forbidden = excluded.forbidden,
    digits = excluded.digits,
    required = excluded.required,
    closed_gates = excluded.closed_gates,
    own_buckets = excluded.own_buckets,
    confirmed_start = excluded.confirmed_start,
    confirmed_table = excluded.confirmed_table;
  RETURN NULL;
END
$$;
