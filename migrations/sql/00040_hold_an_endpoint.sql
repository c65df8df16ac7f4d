-- Migration 40, hold an endpoint. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function hold_event_endpoint
CREATE OR REPLACE FUNCTION {cell}.hold_event_endpoint(endpoint_id text) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  paused timestamptz;
BEGIN
  SELECT e.paused_at INTO paused FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 COLLATE "C" FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  RETURN paused;
END
$$;
-- end of hold_event_endpoint

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 40, serves 13'
$$;
-- end of schema_version
