-- Stores what another cell knows of the directory. $1 directory, $2 cells, $3 changes, $4 the servers on which the maps
-- were read that the copy is of, as JSON
SELECT l.learned, l.contradicted, l.later, l.left_behind
FROM {cell}.learn_cells($1, $2, $3, $4) l
