-- keep_api_token() -> trigger
--   Refuses every update of a token other than its one revocation.
-- errors:  P0001.
-- reads, writes, locks: nothing.   called by: trigger of payment_api_tokens.
CREATE OR REPLACE FUNCTION {cell}.keep_api_token() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF OLD.revoked_at IS NOT NULL OR NEW.revoked_at IS NULL
    OR to_jsonb(OLD) - 'revoked_at' IS DISTINCT FROM to_jsonb(NEW) - 'revoked_at'
  THEN
    RAISE EXCEPTION USING ERRCODE = 'P0001', MESSAGE = 'a token can only be revoked, not changed: create another one';
  END IF;
  RETURN NEW;
END
$$;
