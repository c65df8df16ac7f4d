// Package streams runs an installation with two rails: a stream of a real nats-server, and a topic of franz-go's
// kfake, a fake of Kafka, each in a process of its own. Relayers, brokers and consumers are killed, and
// acknowledgements are lost. The last payments of NATS are sent again after the stream has forgotten their keys. The
// run counts what the database says, the messages of stream and topic, and the ledger of the consumers, which
// de-duplicate as docs/rails.md says.
package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Options configures a run.
type Options struct {
	Payments int // 100 to 1,000,000
	Faults   int // from 10, over which the payments are spread; 0 makes them until the payments have ended
	Seed     uint64
	Bound    time.Duration // of the whole run
	Evidence string        // folder of logs and of the brokers' stores, made anew
	Binaries string        // folder of railhead and testbed
	Out      io.Writer
}

// ErrCount means that the counts are not what was promised.
var ErrCount = errors.New("the run does not add up")

// Run makes a whole run: an installation, payments under faults, payments that are sent again after the
// window of duplicates, then a time of rest and the count. The count is complete if the error is ErrCount
// or nil.
func Run(ctx context.Context, o Options) (_ Count, err error) {
	if o.Payments < 100 || o.Payments > 1_000_000 {
		return Count{}, fmt.Errorf("%d payments: use 100 to 1000000", o.Payments)
	}
	if o.Faults != 0 && o.Faults < cycle {
		return Count{}, fmt.Errorf("%d faults: use at least %d", o.Faults, cycle)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Bound)
	defer cancel()
	for _, folder := range []*string{&o.Evidence, &o.Binaries} {
		if *folder, err = filepath.Abs(*folder); err != nil {
			return Count{}, err
		}
	}
	if err := os.RemoveAll(o.Evidence); err != nil {
		return Count{}, err
	}
	if err := os.MkdirAll(o.Evidence, 0o755); err != nil {
		return Count{}, err
	}
	w, err := newWorld(ctx, o)
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	if err != nil {
		return Count{}, err
	}
	w.say("seed=%d payments=%d, logs in %s", o.Seed, o.Payments, o.Evidence)
	late, doubtful := min(o.Payments/5, 1000), min(o.Payments/25, 20)
	if err := w.faultsDuring(ctx, o.Payments-late-doubtful); err != nil {
		return Count{}, err
	}
	w.say("paid %d under kills; %d more on kafka=fake, of which each acknowledgement is lost; and %d more on NATS, which "+
		"are sent again after the stream has forgotten their keys", o.Payments-late-doubtful, doubtful, late)
	if err := errors.Join(w.doubt(ctx, doubtful), w.outliveWindow(ctx, late)); err != nil {
		return Count{}, err
	}
	return w.judge(ctx)
}
