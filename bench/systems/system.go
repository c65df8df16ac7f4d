// Package systems contains the queues that are measured, behind one interface. Each is used as its
// documentation recommends, through its own client.
package systems

import (
	"context"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/bench/server"
)

// System is one queue.
type System interface {
	Name() string
	// Configured describes its configuration, in a sentence for the reader of the table.
	Configured() string
	// Missing returns why it can't run here, or "" if it can.
	Missing() string
	// Install installs its schema in an empty database, which is then copied for every run.
	Install(ctx context.Context, db server.Database) error
	Open(ctx context.Context, db server.Database, o Options) (Session, error)
}

// Options are the options of one run.
type Options struct {
	Producers int // connections that enqueue at once
	Workers   int // relayers or clients that work concurrently; 0 is 1
	// Sparse means that work is rare, so that a system that the database can wake should be woken by
	// it.
	Sparse bool
	// Base is added to the numbers of payments, where a database is used again.
	Base int
	// Heard means that a caller listens for outcomes while the workers run.
	Heard bool
	// Singly means that each call is a transaction of its own, where a system could send several
	// calls together.
	Singly bool
	// Gathered means that payments that callers enqueue at once are sent together, by a system whose
	// own calls are a transaction each.
	Gathered bool
	// HTTP is the number of callers that enqueue over HTTP, through an API in a process of its own; 0
	// means that they call in this process.
	HTTP int
	// OneParticipant gives every payment to the same participant.
	OneParticipant bool
	// Ordered means that the payments of a participant are sent one after another.
	Ordered bool
	// Reaper means that Railhead's reaper runs with the workers.
	Reaper bool
	// RailLatency is how long Railhead's rail takes to answer; 0: it answers at once.
	RailLatency time.Duration
}

// Session is a system that runs on one database.
type Session interface {
	// Fill enqueues payments first to first+n-1 by the system's fastest way.
	Fill(ctx context.Context, first, n int) error
	// Enqueue enqueues one payment, and returns once it is durable.
	Enqueue(ctx context.Context, n int) error
	// Work starts the workers. It returns once they run; stop ends them.
	Work(ctx context.Context, watch Watch) (stop func() error, err error)
	// Count returns how many payments have a durable outcome in the database.
	Count(ctx context.Context) (int, error)
	Close()
}

// Watch receives what the workers do, on any goroutine.
type Watch struct {
	// Called reports that the rail call (or the job's function) for payment n began.
	Called func(n int, at time.Time)
	// Done reports that count more outcomes are durable.
	Done func(count int)
	// Turn reports a committed turn of Railhead's relayer with what it claimed and recorded, and how
	// long it took. Of two turns at once, one may report the claims of the other. Nil: they are not
	// wanted.
	Turn func(claimed, recorded int, took time.Duration)
}

// Participants is the number of participants that the payments are spread over.
const Participants = 1000

// Participant returns the participant of payment n.
func Participant(n int) string { return fmt.Sprintf("participant-%04d", n%Participants) }

// Payload returns the same document for every system, about 250 bytes of JSON.
func Payload(n int) []byte {
	return fmt.Appendf(nil, `{"amount": "%d.%02d", "currency": "EUR", "debtor": {"name": "Example Trading Ltd", "account": "DE8937040044%010d"}, `+
		`"creditor": {"name": "Sample Supplies BV", "account": "NL91ABNA%010d"}, "purpose": "SUPP", "reference": "invoice %d"}`,
		1+n%9000, n%100, n%1000, n, n)
}
