-- Records on which server another cell is, after which no copy from an earlier one is learned. $1 cell, $2 its server,
-- $3 reason; null: none, and the server must follow the known one
SELECT {cell}.note_cell_server($1, $2, $3)
