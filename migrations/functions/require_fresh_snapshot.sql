-- require_fresh_snapshot() -> void
--   Raises 25001 above READ COMMITTED: there every statement sees what the first one of its transaction
--   did, and a token that was revoked since would go on being in force.
-- reads, writes, locks: nothing.   called by: api_enqueue, api_events, api_token, require_api_token.
CREATE OR REPLACE FUNCTION {cell}.require_fresh_snapshot() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION USING ERRCODE = '25001', MESSAGE = 'a token is read in READ COMMITTED only',
      HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED; for a process of the API, give its login that '
        'default_transaction_isolation.';
  END IF;
END
$$;
