package ledger

// Gathering counts the calls by which Enqueue has sent instructions since the Ingest was
// opened, and the instructions that wait.
type Gathering struct {
	Waiting int   // instructions that are not sent yet
	Single  int64 // calls of one instruction
	Batches int64 // calls of several
	Items   int64 // instructions in those
	Busy    int64 // of those, refused because another transaction enqueued for their participant
}
