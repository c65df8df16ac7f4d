package ledger

// Gathering counts what Enqueue has sent since the Ingest was opened, and what waits.
type Gathering struct {
	Waiting  int   // instructions that are not sent yet
	Alone    int64 // calls of one instruction
	Together int64 // calls of several
	Items    int64 // instructions of those
	Busy     int64 // of those, what came back because another transaction enqueued for their participant
}
