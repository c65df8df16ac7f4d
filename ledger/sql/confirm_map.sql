-- Records that the map was compared. $1 the server under which it was read, $2 the other cells that it was compared
-- with, $3 those that are left out, $4 reason
SELECT {cell}.confirm_map($1, $2, $3, $4)
