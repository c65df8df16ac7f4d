package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
)

// losing is a tracer that loses the answer to the first statement that enqueues, if it is to, and acts after some.
type losing struct {
	loses bool
	after map[int]func()
	ended int
}

func (l *losing) TraceQueryStart(ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	is := strings.Contains(d.SQL, "enqueue_payment_outbox_arrays")
	if is && l.loses {
		l.loses = false
		conn.PgConn().Conn().SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // the test fails
	}
	return context.WithValue(ctx, enqueues{}, is)
}

func (l *losing) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if is, _ := ctx.Value(enqueues{}).(bool); is {
		if l.ended++; l.after[l.ended] != nil {
			l.after[l.ended]()
		}
	}
}

// TestFileThatStops: whatever ends a file, the lines that are known to be stored have their results and are counted,
// and once an answer was lost the error is that of an unknown commit.
func TestFileThatStops(t *testing.T) {
	t.Parallel()
	const (
		away = "ALTER DATABASE %I CONNECTION LIMIT 0"
		one  = "UPDATE railhead.payment_outbox_settings SET batch_items_max = 1"
		ends = "a signal"
	)
	for what, c := range map[string]struct {
		loses bool
		first string         // before the file
		after map[int]string // calls
		code  int
		lines int
		tells string
	}{
		"lost, then away":       {true, "", map[int]string{1: away}, exitUnreachable, 0, "line 0, 0 enqueued, 0 replayed, 0 refused"},
		"lost, then ended":      {true, "", map[int]string{1: ends}, exitInterrupted, 0, "line 0, 0 enqueued, 0 replayed, 0 refused"},
		"lost, halved, ended":   {true, "", map[int]string{1: one, 3: ends}, exitInterrupted, 2, "line 2, "},
		"halved, then ended":    {false, one, map[int]string{2: ends}, exitInterrupted, 2, "line 2, 1 enqueued, 0 replayed, 1 refused"},
		"ended before a result": {false, one, map[int]string{1: ends}, exitInterrupted, 0, "line 0, 0 enqueued, 0 replayed, 0 refused"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cell := celltest.New(t)
			tracer := &losing{}
			in, err := ingest.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema, Tracer: tracer})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(in.Close)
			run := func(ctx context.Context, out, notes io.Writer, lines string) error {
				load := &fileLoad{ingest: in, out: output{w: out}, notes: notes, said: time.Now(),
					lines: newLineReader(strings.NewReader(lines)), held: map[string]*outbox.Fault{}}
				return load.run(ctx)
			}
			line := func(id string) string {
				return `{"instruction_id":"` + id + `","participant_id":"p1","idempotency_key":"k",` +
					`"rail_type":"bank","payload":{"amount":"1.00","currency":"EUR"}}` + "\n"
			}
			// From now on the connection knows the statement: the answer that is lost is that of the enqueue.
			if err := run(t.Context(), io.Discard, io.Discard, line("a")); err != nil {
				t.Fatal(err)
			}
			if c.first != "" {
				cell.Exec(c.first)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tracer.loses, tracer.ended, tracer.after = c.loses, 0, map[int]func(){}
			for nth, act := range c.after {
				tracer.after[nth] = func() {
					switch act {
					case ends:
						cancel()
					case away:
						cell.Exec("DO $$BEGIN EXECUTE format('" + away + "', current_database()); END$$")
					default:
						cell.Exec(act)
					}
				}
			}
			var out, notes bytes.Buffer
			err = run(ctx, &out, &notes, line("b")+"7\n"+line("c"))
			if errors.Is(err, outbox.ErrCommitUnknown) != c.loses || exitCode(err) != c.code ||
				strings.Contains(err.Error(), "may be stored all the same") != c.loses {
				t.Errorf("exit code %d, want %d: %v", exitCode(err), c.code, err)
			}
			if strings.Count(out.String(), "\n") != c.lines || !strings.Contains(notes.String(), "stopped: "+c.tells) ||
				c.lines > 0 && !strings.Contains(out.String(), "2\trefused") {
				t.Errorf("it says %q and %q", out.String(), notes.String())
			}
		})
	}
}
