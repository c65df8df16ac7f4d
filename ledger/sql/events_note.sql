-- Notes deliveries to an endpoint. $1 its id, $2 the worker's name, $3 epoch, $4 lease in ms, $5 to $9 its cursor or
-- null, $10 and $11 the events that are done, $12 to $19 the events to retry, $20 whether it accepted an event,
-- $21 whether the events to retry are due now, $22 the number of notes
SELECT {cell}.note_event_deliveries($1, $2, $3, $4, $5::text, $6::text::xid8, $7, $8, $9, $10, $11, $12, $13, $14, $15,
  $16, $17, $18, $19, $20, $21, $22)
