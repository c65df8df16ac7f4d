-- The number of entries of the due index that this session has read, dead ones included. The server
-- counts exactly, but adds the count to its totals only now and then: only the difference within
-- one transaction is meaningful. It is always 0 if track_counts is off.
SELECT pg_stat_get_xact_tuples_returned('{cell}.payment_outbox_pending_due'::regclass) AS walked
