// Package localrun is `make run`: a whole installation on one machine, with a
// private PostgreSQL, the simulated bank or a broker, and relayer, reaper and API as processes of
// their own, each with its own database login. It pays a sample of instructions
// and compares what the database says with what the bank's ledger or the stream says.
package localrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options configures a run.
type Options struct {
	// Dir is the folder that keeps the server's data, the bank's ledger or the stream, logs and addresses between
	// runs.
	Dir string
	// Evidence is the folder for the data that the last line was counted from.
	Evidence string
	// DatabaseURL is the administrator's connection string of a server to use instead of a private
	// one.
	DatabaseURL string
	Cell        string
	// Rail is what payments are sent to: Bank, NATS or Kafka.
	Rail Rail
	// Railhead and Payee are the binaries to run; Payee has the simulated bank, or the broker.
	Railhead, Payee string
	// Once ends the run when everything is paid; otherwise the installation stays up.
	Once bool
	// Instructions and Participants are the size of the sample, 1 to 100,000.
	Instructions, Participants int
	// Timeout bounds the payment of the sample; 0 is 5 min.
	Timeout time.Duration
	Out     io.Writer
	Log     *slog.Logger
}

// Rail is a kind of what payments are sent to.
type Rail string

// The simulated bank of package railsim, a stream of NATS JetStream on a real server, and a topic of franz-go's kfake,
// which is a fake of Kafka.
const (
	Bank  Rail = "bank"
	NATS  Rail = "nats"
	Kafka Rail = "kafka"
)

// Errors that a caller turns into exit codes.
var (
	ErrBadOptions = errors.New("can't run with these options")
	// ErrMismatch means that not everything was paid exactly once.
	ErrMismatch = errors.New("the run did not end with every instruction dispatched and executed exactly once")
)

// Run starts everything, pays the sample, prints the summary, and then stays up
// until the context ends, unless Once. It leaves no process behind.
func Run(ctx context.Context, o Options) (err error) {
	if o, err = o.complete(); err != nil {
		return err
	}
	begun := time.Now()
	i := &installation{
		Options: o, payee: newPayee(o), runID: begun.UTC().Format("20060102-150405"), elsewhere: dataElsewhere,
		passwords: make(map[string]string),
	}
	defer func() { err = errors.Join(err, i.stop()) }()
	for _, step := range []func(context.Context) error{
		i.startDatabase, i.prepareDatabase, i.startPayee, i.applyRails, i.startServices,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	i.say("ready after %s", time.Since(begun).Round(10*time.Millisecond))
	summary, err := i.paySample(ctx)
	if err != nil {
		return err
	}
	if o.Once {
		// The services stop first, so that the evidence is taken from a system at rest.
		if err := i.stopServices(); err != nil {
			return err
		}
		return i.conclude(ctx, summary)
	}
	if err := i.conclude(ctx, summary); err != nil {
		i.say("%v", err)
	}
	if err := i.explain(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	i.say("stopping: draining what is in flight")
	return nil
}

func (o Options) complete() (Options, error) {
	if o.Instructions < 1 || o.Instructions > 100_000 || o.Participants < 1 || o.Participants > o.Instructions {
		return o, fmt.Errorf("%w: %d instructions of %d participants; use 1 to 100000 of 1 to as many",
			ErrBadOptions, o.Instructions, o.Participants)
	}
	if o.Rail != Bank && o.Rail != NATS && o.Rail != Kafka {
		return o, fmt.Errorf("%w: the rail %q; use %s, %s or %s", ErrBadOptions, o.Rail, Bank, NATS, Kafka)
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Minute
	}
	for _, path := range []*string{&o.Dir, &o.Evidence, &o.Railhead, &o.Payee} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, fmt.Errorf("%w: %w", ErrBadOptions, err)
		}
		*path = absolute
	}
	for _, binary := range []string{o.Railhead, o.Payee} {
		if _, err := os.Stat(binary); err != nil {
			return o, fmt.Errorf("%w: %w: build it with make build", ErrBadOptions, err)
		}
	}
	for _, dir := range []string{o.Dir, filepath.Join(o.Dir, "log"), o.Evidence} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return o, fmt.Errorf("%w: %w", ErrBadOptions, err)
		}
	}
	return o, nil
}

// say prints a line for the user.
func (o Options) say(format string, args ...any) {
	fmt.Fprintf(o.Out, "run: "+strings.TrimSuffix(format, "\n")+"\n", args...)
}
