package tracing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/internal/tracing/export"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/reaper"
	"github.com/railhead-pay/railhead/relayer"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shape is a rail that accepts provisionally and sends callbacks.
var shape = simrail.Shape{Acceptance: payment.AcceptanceProvisional, Resend: payment.ResendNever}

// world is an installation whose spans are all recorded.
type world struct {
	t      *testing.T
	cell   *celltest.Cell
	spans  *tracetest.InMemoryExporter
	traces *export.Traces
	bank   *simrail.Bank
	ingest *ingest.Ingest
	log    *slog.Logger
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cell: celltest.New(t), spans: tracetest.NewInMemoryExporter(),
		log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	w.traces = export.WithProcessor(sdk.NewSimpleSpanProcessor(w.spans), "test", "v1", "worker")
	store := w.executor()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var err error
	w.bank, err = simrail.Start(shape, simrail.Options{Dir: t.TempDir(), CallbackURL: server.URL, Speed: simrail.Speed{
		Answer: 2 * time.Second, Settle: 300 * time.Millisecond, Callback: time.Hour, Retry: 50 * time.Millisecond,
		Sends: 3, Concurrency: 8,
	}})
	w.must(err)
	t.Cleanup(func() { w.bank.Close() })
	profile, err := w.bank.Profile.JSON()
	w.must(err)
	w.cell.ApplyProfile(shape.RailType(), string(profile))
	file, err := simrail.Rails(w.bank)
	w.must(err)
	readers, err := simrail.Callbacks(file)
	w.must(err)
	reports, err := callbacks.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Callbacks), Cell: w.cell.Schema,
		Tracer: w.traces.Postgres()})
	w.must(err)
	t.Cleanup(reports.Close)
	receiver, err := callback.NewReceiver(readers, reports, "callbacks-1", 5*time.Second, nil, w.log)
	w.must(err)
	receiver.Tracer = w.traces.Tracer()
	receiver.Register(mux)
	w.ingest, err = ingest.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Ingest), Cell: w.cell.Schema,
		Tracer: w.traces.Postgres()})
	w.must(err)
	t.Cleanup(w.ingest.Close)
	w.relay(store, file)
	return w
}

func (w *world) executor() *executor.Executor {
	w.t.Helper()
	store, err := executor.Open(w.t.Context(), ledger.Config{
		URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema, MaxConns: 8, Tracer: w.traces.Postgres()})
	w.must(err)
	w.t.Cleanup(store.Close)
	return store
}

func (w *world) relay(store *executor.Executor, file railconfig.File) {
	w.t.Helper()
	open := func(profile rails.Profile) (rails.Rail, error) {
		if profile.RailType != shape.RailType() {
			return nil, relayer.ErrNotServed
		}
		return railconfig.Open(file.Rails[0], profile)
	}
	notifier, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, store,
		w.log)
	w.must(err)
	one, err := relayer.New(relayer.Config{
		WorkerID: "relayer-1", Poll: 50 * time.Millisecond,
		HeartbeatEvery: 200 * time.Millisecond, Tracer: w.traces.Tracer(),
	}, store, notifier, open, nil, w.log)
	w.must(err)
	w.background(one.Run)
}

func (w *world) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// called begins a caller's span and enqueues inside of it.
func (w *world) called(name, rail string) (payment.ID, trace.SpanContext) {
	w.t.Helper()
	ctx, span := w.traces.Tracer().Start(w.t.Context(), "caller "+name)
	defer span.End()
	receipt, err := w.ingest.Enqueue(ctx, payment.Instruction{
		InstructionID: name, ParticipantID: "participant", IdempotencyKey: "key-" + name, RailType: rail,
		Payload: []byte(`{"amount": "7310.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}`),
	})
	w.must(err)
	return receipt.OutboxID, span.SpanContext()
}

// await waits for n ended spans of a name about an instruction.
func (w *world) await(name string, id payment.ID, n int) tracetest.SpanStubs {
	w.t.Helper()
	var found tracetest.SpanStubs
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		found = nil
		for _, span := range w.spans.GetSpans() {
			if span.Name == name && says(span, tracing.OutboxID) == id.String() {
				found = append(found, span)
			}
		}
		if len(found) == n {
			return found
		}
	}
	w.t.Fatalf("%d spans %s of %s, want %d", len(found), name, id, n)
	return nil
}

func says(span tracetest.SpanStub, key attribute.Key) string {
	for _, attr := range span.Attributes {
		if attr.Key == key {
			return attr.Value.String()
		}
	}
	return ""
}

// linked reports whether a span is the root of a trace of its own with one link,
// to the caller's.
func linked(span tracetest.SpanStub, caller trace.SpanContext) bool {
	return !span.Parent.IsValid() && span.SpanContext.TraceID() != caller.TraceID() &&
		len(span.Links) == 1 && span.Links[0].SpanContext.SpanID() == caller.SpanID() &&
		span.Links[0].SpanContext.TraceID() == caller.TraceID()
}

// TestWholeLife follows one instruction that is refused for now, sent again, accepted
// provisionally, and ended by a callback.
func TestWholeLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.bank.SetFaults(railsim.Fault{Kind: railsim.StatusBefore, Status: 422, Word: "REFUSED", Code: "AB05",
		Probability: 1, Match: railsim.Match{Nth: 1}}))
	id, caller := w.called("life", shape.RailType())
	back := w.await(tracing.Callback, id, 1)[0]
	sends := w.await(tracing.Send, id, 2)

	first, second := sends[0], sends[1]
	if first.Parent.SpanID() != caller.SpanID() || first.SpanContext.TraceID() != caller.TraceID() ||
		len(first.Links) > 0 {
		t.Errorf("the first send has parent %s in trace %s, want the caller's %s in %s",
			first.Parent.SpanID(), first.SpanContext.TraceID(), caller.SpanID(), caller.TraceID())
	}
	if !linked(second, caller) {
		t.Errorf("the second send is no root with a link to the caller: parent %v, links %v", second.Parent, second.Links)
	}
	if !linked(back, caller) {
		t.Errorf("the callback is no root with a link to the caller: parent %v, links %v", back.Parent, back.Links)
	}
	for _, c := range []struct {
		span tracetest.SpanStub
		want map[attribute.Key]string
	}{
		{first, map[attribute.Key]string{tracing.AttemptNo: "1", tracing.RailType: shape.RailType(),
			tracing.Result: "REFUSED_TRANSIENT",
			tracing.State:  "RETRYABLE", tracing.SendNo: "1"}},
		{second, map[attribute.Key]string{tracing.AttemptNo: "3", tracing.RailType: shape.RailType(), tracing.Result: "ACCEPTED", tracing.State: "ACCEPTED"}},
		{back, map[attribute.Key]string{tracing.RailType: shape.RailType(), tracing.Result: "EXECUTED"}},
	} {
		for key, want := range c.want {
			if got := says(c.span, key); got != want {
				t.Errorf("%s says %s=%q, want %q", c.span.Name, key, got, want)
			}
		}
	}
	if says(back, tracing.Verdict) == "" {
		t.Error("the callback's span does not say what became of it")
	}
	w.insideTurns(id)
	w.saysNoMore()
}

// insideTurns checks that the claims and records of an instruction are there, each
// inside its turn, with the statements of the database.
func (w *world) insideTurns(id payment.ID) {
	w.t.Helper()
	count := map[string]int{}
	statements := 0
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if count, statements = w.countInTurns(id); count[tracing.Claim] == 2 && count[tracing.Record] == 2 && statements > 0 {
			return
		}
	}
	w.t.Errorf("%d claims and %d records in turns, want 2 each; %d statements", count[tracing.Claim],
		count[tracing.Record], statements)
}

func (w *world) countInTurns(id payment.ID) (count map[string]int, statements int) {
	all := w.spans.GetSpans()
	turns, traces := make(map[trace.SpanID]bool), make(map[trace.TraceID]bool)
	for _, span := range all {
		if span.Name == tracing.Turn {
			turns[span.SpanContext.SpanID()], traces[span.SpanContext.TraceID()] = true, true
		}
	}
	count = map[string]int{}
	for _, span := range all {
		if traces[span.SpanContext.TraceID()] && strings.Contains(says(span, "db.query.text"), "payment_outbox_attempts") {
			statements++
		}
		if strings.Contains(says(span, tracing.OutboxIDs), id.String()) {
			if turns[span.Parent.SpanID()] {
				count[span.Name]++
			}
		}
	}
	return count, statements
}

// saysNoMore checks every attribute of every span against the allowed ones.
func (w *world) saysNoMore() {
	w.t.Helper()
	allowed := []attribute.Key{
		tracing.OutboxID, tracing.OutboxIDs, tracing.AttemptNo, tracing.RailType, tracing.ClaimID, tracing.WorkerID,
		tracing.SendNo,
		tracing.Result, tracing.State, tracing.NextAction, tracing.Verdict, tracing.Outcomes, tracing.Claims, tracing.Lanes,
		tracing.SQLState,
		"stale", "repaired", "superseded", "proven", "expired", "grace",
	}
	database := regexp.MustCompile(`^(db\.(system(\.name)?|query\.text|operation\.(name|batch\.size)|response\.\w+)|pgx\.[a-z_.]+|rows_affected)$`)
	for _, span := range w.spans.GetSpans() {
		for _, attr := range span.Attributes {
			if !slices.Contains(allowed, attr.Key) && !database.MatchString(string(attr.Key)) {
				w.t.Errorf("%s says %s", span.Name, attr.Key)
			}
		}
		text, err := json.Marshal(span)
		w.must(err)
		for _, secret := range []string{"7310.50", "EUR", "debtor", "key-"} {
			if strings.Contains(string(text), secret) {
				w.t.Errorf("%s says %q", span.Name, secret)
			}
		}
	}
}

// TestRepairIsLinked tests that a claim of a worker that died is repaired in a cycle of the reaper,
// and that the repair is linked to the caller.
func TestRepairIsLinked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cell.ApplyProfile(celltest.Bank, `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME",
		"timeouts": {"connect": "50ms", "tls": "50ms", "write": "50ms", "response_header": "50ms", "body": "50ms"}}`)
	w.cell.SetTimeBudget(outbox.TimeBudget{
		ClaimTimeout: 5 * time.Second, StartWithin: 100 * time.Millisecond, RecordWithin: 100 * time.Millisecond,
		Drain:          100 * time.Millisecond,
		HeartbeatStale: time.Second,
	})
	id, caller := w.called("lost", celltest.Bank)
	store := w.executor()
	_, err := store.Turn(t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{ClaimID: payment.NewID(), WorkerID: "dead",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 1, Oldest: 1,
			ProfileVersion: w.cell.ProfileInForce(celltest.Bank), RenderVersion: "r1"}}}})
	w.must(err)
	one, err := reaper.New(reaper.Config{
		WorkerID: "reaper-1", Every: 50 * time.Millisecond, Grace: 50 * time.Millisecond, Tracer: w.traces.Tracer(),
	}, store, nil, w.log)
	w.must(err)
	w.background(one.Run)
	repair := w.await(tracing.Repair, id, 1)[0]
	if len(repair.Links) != 1 || repair.Links[0].SpanContext.SpanID() != caller.SpanID() {
		t.Errorf("links %v, want the caller's", repair.Links)
	}
	if says(repair, tracing.State) != "ZOMBIE_REQUEUE" || says(repair, tracing.AttemptNo) != "1" {
		t.Errorf("the repair says %v", repair.Attributes)
	}
	var cycle tracetest.SpanStub
	for deadline := time.Now().Add(60 * time.Second); cycle.Name == "" &&
		time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, span := range w.spans.GetSpans() {
			if span.SpanContext.SpanID() == repair.Parent.SpanID() {
				cycle = span
			}
		}
	}
	if cycle.Name != tracing.Cycle || says(cycle, "repaired") != "1" {
		t.Errorf("the repair is inside of %q, which says %v", cycle.Name, cycle.Attributes)
	}
	w.saysNoMore()
}

// TestHostileCaller tests that the instruction is sent whatever its headers contain, as the root of
// its own trace if they contain no trace context.
func TestHostileCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.cell.Conn(t, celltest.Ingest)
	for n, parent := range []string{
		"x", strings.Repeat("0", 55), "00-" + strings.Repeat("g", 32) + "-b7ad6b7169203331-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Evil: 1",
		strings.Repeat("a", 3000), "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
	} {
		headers, err := json.Marshal(map[string]string{"traceparent": parent, "tracestate": "a=b\r\nX-Evil: 1"})
		w.must(err)
		var id [16]byte
		w.must(conn.QueryRow(t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'participant', $1, $2,
			'{"amount": "7310.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}', headers => $3::jsonb)`,
			fmt.Sprintf("hostile-%d", n), shape.RailType(), string(headers)).Scan(&id))
		send := w.await(tracing.Send, payment.ID(id), 1)[0]
		if send.Parent.IsValid() || len(send.Links) > 0 || send.SpanContext.TraceState().Len() > 0 {
			t.Errorf("%q: parent %v, links %v", parent, send.Parent, send.Links)
		}
	}
}
