-- How many entries of the due index this session has walked, dead ones included.
-- The server counts exactly and adds it up now and then: only the difference
-- within one transaction means anything. Always 0 where track_counts is off.
SELECT pg_stat_get_xact_tuples_returned('{cell}.payment_outbox_pending_due'::regclass) AS walked
