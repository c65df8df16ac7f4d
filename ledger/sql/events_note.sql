-- What was delivered to an endpoint. $1 its id, $2 the worker's name, $3 epoch, $4 lease in ms, $5 to $9 its place or null, $10 and $11
-- what waits no more, $12 to $19 what waits, $20 whether it took something, $21 whether what waits is due now, $22 by which number
SELECT {cell}.note_event_deliveries($1, $2, $3, $4, $5::text, $6::text::xid8, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
