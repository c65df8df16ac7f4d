-- Makes this database a cell of a directory. $1 name, $2 setting, $3 schema, $4 reason, $5 directory, null: a new one;
-- $6 cells of the directory, as JSON; $7 the id of a cell that rejoins, null: a new one
SELECT {cell}.name_cell($1, $2, $3, $4, $5, $6, $7)::text
