// Package systems are the queues that are measured, behind one interface. Each
// is used as its documentation says, through its own client.
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
	// Configured says how, in a sentence for the reader of the table.
	Configured() string
	// Missing says why it can't run here; "": it can.
	Missing() string
	// Install puts its schema into an empty database, which is then copied for
	// every run.
	Install(ctx context.Context, db server.Database) error
	Open(ctx context.Context, db server.Database, o Options) (Session, error)
}

// Options of one run.
type Options struct {
	Producers int // connections that enqueue at once
	Workers   int // relayers or clients that work concurrently; 0 is 1
	// Sparse says that work comes seldom, so that a system that can be woken by
	// the database should be.
	Sparse bool
	// Base is added to the numbers of payments, where a database is used again.
	Base int
	// Heard says that a caller hears outcomes while the workers run.
	Heard bool
	// Singly says that a call makes a transaction of its own, where a system could send several together.
	Singly bool
	// Gathered says that what callers enqueue at once is sent together, by a system whose own call makes a transaction
	// each.
	Gathered bool
	// HTTP is how many callers enqueue over HTTP, from an API in a process of its own; 0: they call in this process.
	HTTP int
	// OneParticipant gives every payment to the same one.
	OneParticipant bool
}

// Session is a system at work in one database.
type Session interface {
	// Fill enqueues payments first to first+n-1 by the system's fastest way.
	Fill(ctx context.Context, first, n int) error
	// Enqueue takes one payment, and returns once that is durable.
	Enqueue(ctx context.Context, n int) error
	// Work starts the workers. It returns once they run; stop ends them.
	Work(ctx context.Context, watch Watch) (stop func() error, err error)
	// Count is how many payments have a durable outcome in the database.
	Count(ctx context.Context) (int, error)
	Close()
}

// Watch hears what the workers do, on any goroutine.
type Watch struct {
	// Called: the rail call (or the job's function) for payment n began.
	Called func(n int, at time.Time)
	// Done: so many more outcomes are durable.
	Done func(count int)
}

// Participants is how many participants the payments are spread over.
const Participants = 1000

// Participant is the one of payment n.
func Participant(n int) string { return fmt.Sprintf("participant-%04d", n%Participants) }

// Payload is the same document for every system, about 250 bytes of JSON.
func Payload(n int) []byte {
	return fmt.Appendf(nil, `{"amount": "%d.%02d", "currency": "EUR", "debtor": {"name": "Example Trading Ltd", "account": "DE8937040044%010d"}, `+
		`"creditor": {"name": "Sample Supplies BV", "account": "NL91ABNA%010d"}, "purpose": "SUPP", "reference": "invoice %d"}`,
		1+n%9000, n%100, n%1000, n, n)
}
