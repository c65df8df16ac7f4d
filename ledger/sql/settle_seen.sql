-- Writes a message to the write-ahead log, so that the commit of the transaction waits until every row that it has
-- read is durable: on disk, and on the synchronous standby if there is one. A transaction that only reads waits for
-- nothing, and a row whose wait for the standby was cancelled is visible, while a failover would forget it.
SELECT pg_catalog.pg_logical_emit_message(true, 'railhead', 'seen')
