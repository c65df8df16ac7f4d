// Package api runs callers over HTTP that lose answers and repeat their keys, while the API, the
// database and the relayer are killed and connections are cut. Each caller has a token of one
// participant, and an intruder tries the ids of all others. The run counts what the callers were
// told, the rows of the database, and the executions in the bank's own ledger.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Options configures a run.
type Options struct {
	Payments     int
	Participants int
	Lost         float64 // share of the answers
	Seed         uint64
	Bound        time.Duration // of the whole run
	Evidence     string        // folder of logs and of the bank's ledger, made anew
	Binaries     string        // folder of railhead and railsim
}

// ErrCount means that the counts are not what was promised.
var ErrCount = errors.New("the run does not add up")

// Run makes a whole run: an installation, callers and faults, then a time of rest and the count.
func Run(ctx context.Context, o Options) (_ Count, err error) {
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
	w, err := newWorld(ctx, o, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	if err != nil {
		return Count{}, err
	}
	callers, err := newCallers(ctx, w)
	if err != nil {
		return Count{}, err
	}
	if err := w.faultsDuring(ctx, callers.run); err != nil {
		return Count{}, err
	}
	return judge(ctx, w, callers)
}

// Faults describes the faults that were made.
func (made Count) Faults() string {
	return fmt.Sprintf("kills: api=%d database=%d relayer=%d, cuts=%d, answers lost=%d", made.killedAPI,
		made.killedDatabase, made.killedRelayer, made.cuts, made.lostAnswers)
}

// String returns the counts that a run is judged by.
func (made Count) String() string {
	return fmt.Sprintf("accepted=%d lost=%d doubled=%d foreign_reads=%d commit_unknown=%d", made.accepted, made.lost,
		made.doubled, made.foreignReads, made.commitUnknown)
}
