-- Waits, with its commit, until every change of the map that was read before is durable. No argument
SELECT {cell}.flush_map()
