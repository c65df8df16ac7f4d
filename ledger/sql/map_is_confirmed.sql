-- Whether the cell takes instructions by its map of cells. No argument
SELECT {cell}.map_is_confirmed()
