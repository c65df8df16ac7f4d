package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
)

// afterEnqueue is a tracer that acts once the nth statement that enqueues has ended.
type afterEnqueue struct {
	ended, nth int
	act        func()
}

type enqueues struct{}

func (a *afterEnqueue) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, enqueues{}, strings.Contains(d.SQL, "enqueue_payment_outbox_arrays"))
}

func (a *afterEnqueue) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if is, _ := ctx.Value(enqueues{}).(bool); is {
		if a.ended++; a.ended == a.nth {
			a.act()
		}
	}
}

// TestFileWhileABucketMoves: a cell takes a bucket right after it has refused a line of a file. A later line of the
// participant, of another transaction, is not stored before that line.
func TestFileWhileABucketMoves(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	who.env = append(who.env, "RAILHEAD_OPERATOR_URL_EAST="+cell.URL(celltest.Operator))
	who.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow")
	takes := func(whether string) {
		cell.Exec(`UPDATE railhead.payment_buckets SET mine = ` + whether + ` WHERE bucket = railhead.cell_bucket('p1')`)
	}
	takes("false")
	cell.Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 1")
	taken := &afterEnqueue{nth: 2, act: func() { takes("true") }} // the first call is longer than the cell accepts
	in, err := ingest.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema, Tracer: taken})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	var file strings.Builder
	for _, line := range [][2]string{{"a", "p1"}, {"b", "p1"}, {"c", "p2"}} {
		file.WriteString(`{"instruction_id":"` + line[0] + `","participant_id":"` + line[1] + `","idempotency_key":"k",` +
			`"rail_type":"bank","payload":{"amount":"1.00","currency":"EUR"}}` + "\n")
	}
	var out bytes.Buffer
	load := &fileLoad{ingest: in, out: output{w: &out}, notes: io.Discard,
		lines: newLineReader(strings.NewReader(file.String())), held: map[string]*outbox.Fault{}}
	err = load.run(t.Context())
	if said := out.String(); err == nil || !strings.Contains(err.Error(), "2 lines were refused because this cell") ||
		!strings.Contains(said, "1\trefused\ta\tRH009") || !strings.Contains(said, "2\trefused\tb\tRH009") ||
		!strings.Contains(said, "3\tenqueued\tc") {
		t.Errorf("it says %q, %v", said, err)
	}
	who.stdin = file.String()
	if said := who.want(exitOK, "enqueue", "--file", "-").out; strings.Count(said, "enqueued") != 2 {
		t.Errorf("run again it says %q", said)
	}
	if first := cell.Int(`SELECT sequence_id FROM railhead.payment_outbox_keys WHERE instruction_id = 'a'`); first != 1 {
		t.Errorf("the first line of the participant has number %d", first)
	}
}

// TestStoredLineBehindAHeldOne: a line that is stored is replayed, also behind one that the cell does not take.
func TestStoredLineBehindAHeldOne(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	who.env = append(who.env, "RAILHEAD_OPERATOR_URL_EAST="+cell.URL(celltest.Operator))
	who.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow")
	cell.Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 1")
	line := func(id string) string {
		return `{"instruction_id":"` + id + `","participant_id":"p1","idempotency_key":"k",` +
			`"rail_type":"bank","payload":{"amount":"1.00","currency":"EUR"}}` + "\n"
	}
	who.stdin = line("b")
	who.want(exitOK, "enqueue", "--file", "-")
	cell.Exec(`UPDATE railhead.payment_buckets SET mine = false WHERE bucket = railhead.cell_bucket('p1')`)
	who.stdin = line("a") + line("b") + line("c")
	said := who.want(exitPartial, "enqueue", "--file", "-", "-o", "json").out
	var results []string
	for _, each := range []string{`"replayed"`, "RH009", "was not tried"} {
		results = append(results, fmt.Sprint(strings.Count(said, each)))
	}
	if got := strings.Join(results, " "); got != "1 2 1" {
		t.Errorf("%s: %s", got, said)
	}
}
