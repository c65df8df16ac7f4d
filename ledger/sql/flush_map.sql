-- Waits, with its commit, until every change of the map that was read before is durable. $1 the server under which it
-- was read
SELECT {cell}.flush_map($1)
