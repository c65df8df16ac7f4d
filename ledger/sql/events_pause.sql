-- Pauses deliveries to an endpoint. $1 its id, $2 the worker's name, $3 epoch, $4 reason
SELECT {cell}.pause_event_endpoint($1, $2, $3, $4)
