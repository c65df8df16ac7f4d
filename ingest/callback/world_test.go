package callback_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shape is a rail that takes for now, can't be asked, does not de-duplicate, and
// calls back: its callback is all that will ever be heard of it.
var shape = simrail.Shape{Acceptance: payment.AcceptanceProvisional, Resend: payment.ResendNever}

// world is a cell, the receiver in front of it, and a simulated bank that calls it.
type world struct {
	t      *testing.T
	cell   *celltest.Cell
	exec   *executor.Executor
	store  *switched
	bank   *simrail.Bank
	rail   string
	url    string // of the receiver
	taker  *callback.Receiver
	heard  chan string
	policy payment.Policy
	n      int
	// suspended is what the receiver is told of the database.
	suspended atomic.Bool
}

// switched is a store that can be away.
type switched struct {
	there, away callback.Store
	isAway      atomic.Bool
}

func (s *switched) ByRailKey(ctx context.Context, key payment.ID) (payment.ID, error) {
	if s.isAway.Load() {
		return s.away.ByRailKey(ctx, key)
	}
	return s.there.ByRailKey(ctx, key)
}

func (s *switched) RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	if s.isAway.Load() {
		return s.away.RecordLate(ctx, outcome)
	}
	return s.there.RecordLate(ctx, outcome)
}

// Received makes the world the receiver's observer.
func (w *world) Recorded(payment.Outcome, payment.Verdict) {}

func (w *world) Received(railType, what string) { w.heard <- what }

// recordingTimeout bounds the receiver's waits.
const recordingTimeout = 2 * time.Second

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cell: celltest.New(t), rail: shape.RailType(), heard: make(chan string, 100)}
	var err error
	w.exec, err = executor.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema})
	w.must(err)
	t.Cleanup(w.exec.Close)
	there, err := callbacks.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Callbacks), Cell: w.cell.Schema})
	w.must(err)
	t.Cleanup(there.Close)
	nowhere, err := callbacks.Open(t.Context(), ledger.Config{URL: "postgres://x@127.0.0.1:1/x", Cell: w.cell.Schema})
	w.must(err)
	t.Cleanup(nowhere.Close)
	w.store = &switched{there: there, away: nowhere}

	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.bank, err = simrail.Start(shape, simrail.Options{Dir: t.TempDir(), CallbackURL: w.url, Speed: simrail.Speed{
		Answer: time.Second, Callback: time.Hour, Retry: 50 * time.Millisecond, Sends: 3, Concurrency: 8,
	}})
	w.must(err)
	t.Cleanup(func() { w.bank.Close() })
	w.policy = w.bank.Profile.Policy
	profile, err := w.bank.Profile.JSON()
	w.must(err)
	w.cell.ApplyProfile(w.rail, string(profile))
	file, err := simrail.Rails(w.bank)
	w.must(err)
	readers, err := simrail.Callbacks(file)
	w.must(err)
	// Another rail of the same cell, with the same secret: a careless bank.
	readers[celltest.Bank] = readers[w.rail]
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	receiver, err := callback.NewReceiver(readers, w.store, "callbacks-1", recordingTimeout, w, log)
	w.must(err)
	receiver.Suspended = w.suspended.Load
	receiver.Register(mux)
	w.taker = receiver
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// enqueue takes an instruction on the rail.
func (w *world) enqueue() payment.ID {
	w.t.Helper()
	w.n++
	return w.enqueueAs(fmt.Sprintf("instruction-%d", w.n)).OutboxID
}

func (w *world) enqueueAs(name string) payment.Receipt {
	w.t.Helper()
	ingest, err := ingest.Open(w.t.Context(), ledger.Config{URL: w.cell.URL(celltest.Ingest), Cell: w.cell.Schema})
	w.must(err)
	defer ingest.Close()
	receipt, err := ingest.Enqueue(w.t.Context(), payment.Instruction{
		InstructionID: name, ParticipantID: "participant", IdempotencyKey: name, RailType: w.rail,
		Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`),
	})
	w.must(err)
	return receipt
}

// claim claims an instruction, as a relayer does before it sends.
func (w *world) claim(id payment.ID) payment.Claim {
	w.t.Helper()
	result, err := w.exec.Turn(w.t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "relayer-1",
		Lanes: []outbox.Lane{{RailType: w.rail, Free: 1, Oldest: 1, ProfileVersion: w.cell.ProfileInForce(w.rail),
			RenderVersion: "r1"}},
	}})
	w.must(err)
	if len(result.Claims) != 1 || result.Claims[0].OutboxID != id {
		w.t.Fatalf("claimed %v, want %s", result.Claims, id)
	}
	return result.Claims[0]
}

// record records what the rail answered to a claim.
func (w *world) record(claim payment.Claim, result payment.Result, reference string) {
	w.t.Helper()
	outcome := payment.Outcome{
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: result, RailReference: reference,
		Decision: w.policy.Decide(claim, payment.Answer{Result: result, Elapsed: time.Millisecond}),
		WorkerID: "relayer-1", ProfileVersion: 1, RenderVersion: "r1",
	}
	turned, err := w.exec.Turn(w.t.Context(), outbox.Turn{Outcomes: []payment.Outcome{outcome},
		Finished: []payment.ID{claim.ClaimID}})
	w.must(err)
	if len(turned.Late) > 0 {
		w.t.Fatal("the answer was late")
	}
}

// pay sends the payment to the bank, which calls back once it has settled, and
// returns the bank's reference.
func (w *world) pay(id payment.ID) string {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.bank.URL+"/payments", strings.NewReader(
		`{"reference": "`+id.String()+`", "amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}`))
	w.must(err)
	request.Header.Set("Idempotency-Key", w.cell.RailKey(id))
	answer, err := http.DefaultClient.Do(request)
	w.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	w.must(err)
	if answer.StatusCode != http.StatusAccepted {
		w.t.Fatalf("the bank says %s: %s", answer.Status, text)
	}
	_, rest, _ := strings.Cut(string(text), `"id":"`)
	reference, _, _ := strings.Cut(rest, `"`)
	return reference
}

// hears waits for what the receiver makes of the next callbacks.
func (w *world) hears(wants ...string) {
	w.t.Helper()
	for _, want := range wants {
		select {
		case got := <-w.heard:
			if got != want {
				w.t.Errorf("the receiver made %s of it, want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			w.t.Fatalf("no callback came, want %s", want)
		}
	}
}

// post sends a callback by hand, signed now by the bank's secret.
func (w *world) post(rail, event, body string) *http.Response {
	w.t.Helper()
	return w.postSigned(rail, event, body, func(event, stamp, body string) string {
		return sign(w.t, simrail.CallbackSecret, event, stamp, body)
	})
}

func (w *world) postSigned(rail, event, body string, sign func(event, stamp, body string) string) *http.Response {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/callbacks/"+rail,
		bytes.NewReader([]byte(body)))
	w.must(err)
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("webhook-id", event)
	request.Header.Set("webhook-timestamp", stamp)
	request.Header.Set("webhook-signature", sign(event, stamp, body))
	answer, err := http.DefaultClient.Do(request)
	w.must(err)
	w.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// says is the body of a callback.
func (w *world) says(id payment.ID, status, reference string) string {
	w.t.Helper()
	return saysKey(w.cell.RailKey(id), status, reference)
}

func saysKey(key, status, reference string) string {
	return `{"key": "` + key + `", "status": "` + status + `", "id": "` + reference + `", "code": ""}`
}

// story is all that the database knows: rows, what waits, the dead letter.
func (w *world) story(id payment.ID) string {
	w.t.Helper()
	var story string
	w.cell.QueryRow(`
		SELECT coalesce((SELECT string_agg(state || coalesce('(' || answers_attempt_no || ')', ''), ' ' ORDER BY attempt_no)
				FROM railhead.payment_outbox_attempts WHERE outbox_id = $1), '')
			|| coalesce((SELECT ', ' || next_action FROM railhead.payment_outbox_pending WHERE outbox_id = $1), '')
			|| coalesce((SELECT ', letter ' || reason || ' ' || status FROM railhead.payment_dead_letters
			WHERE outbox_id = $1), '')`,
		[]any{[16]byte(id)}, &story)
	return story
}

func (w *world) tells(what string, id payment.ID, want string) {
	w.t.Helper()
	if got := w.story(id); got != want {
		w.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func key(t testing.TB, secret string) []byte {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
