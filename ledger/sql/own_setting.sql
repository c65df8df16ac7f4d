-- The setting that the cell's own map gives it, for its owner; null if it is in no directory.
SELECT (SELECT c.setting FROM {cell}.payment_cells c WHERE c.here)
