-- Whether the cell takes instructions by its map, and how many buckets it has, or cells contradict each other about,
-- whose participants it does not take: they are being moved, or have not arrived, or wait for an operator.
SELECT {cell}.map_is_confirmed() AS confirmed,
  {cell}.untaken_buckets() AS untaken
