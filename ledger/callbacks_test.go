package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func openCallbacks(t *testing.T, cell *celltest.Cell) *callbacks.Callbacks {
	t.Helper()
	callbacks, err := callbacks.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Callbacks), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(callbacks.Close)
	return callbacks
}

// TestCallbacksReachNoTable does all that a callback endpoint does, by a login that
// holds nothing on any table.
func TestCallbacksReachNoTable(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	callbacks := openCallbacks(t, d.Cell)
	server, err := callbacks.CheckServer(t.Context())
	if err != nil || server.AcceptedAt.IsZero() {
		t.Fatalf("%+v, %v", server, err)
	}
	if recall, err := callbacks.Recall(t.Context(), "callbacks-1", outbox.Remembered{}); err != nil ||
		recall.BeatsMissing || recall.ClaimMissing {
		t.Errorf("recall: %+v, %v", recall, err)
	}
	beat := outbox.Heartbeat{Name: "callbacks-1", Kind: "callback", Host: "h", Version: "v", Status: "running",
		Looked: server.StartedAt, Vouched: true}
	for want := range int64(2) {
		if pulse, err := callbacks.Heartbeat(t.Context(), beat); err != nil || pulse.Beats != want+1 ||
			pulse.Budget != outbox.DefaultTimeBudget() {
			t.Errorf("beat %d: %+v, %v", want+1, pulse, err)
		}
	}
	beat.Looked = server.StartedAt.Add(-time.Hour)
	if _, err := callbacks.Heartbeat(t.Context(), beat); !errors.Is(err, outbox.ErrServerChanged) {
		t.Errorf("a beat on another start of the server: %v", err)
	}
	if _, err := d.exec.Heartbeat(t.Context(),
		outbox.Heartbeat{Name: "relayer-1", Kind: "relayer", Host: "h", Version: "v", Status: "running",
			Vouched: true}); err != nil {
		t.Fatal(err)
	}
	beat.Name, beat.Looked = "relayer-1", server.StartedAt
	if _, err := callbacks.Heartbeat(t.Context(), beat); err != nil || d.Int(`SELECT beats FROM railhead.outbox_heartbeats
		WHERE name = 'relayer-1'`) != 1 {
		t.Errorf("a beat under a relayer's name: %v, want the relayer's row unchanged", err)
	}

	id, other := d.enqueue(), d.enqueue()
	railKey, err := payment.ParseRailKey(d.RailKey(id))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := callbacks.ByRailKey(t.Context(), railKey); err != nil || found != id {
		t.Errorf("by rail key: %v, %v; want %v", found, err, id)
	}
	if _, err := callbacks.ByRailKey(t.Context(), payment.NewID()); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("a key that is not known: %v", err)
	}
	d.Exec(`UPDATE railhead.payment_outbox_pending SET headers = '{"traceparent": "p", "baggage": "b"}'
		WHERE outbox_id = $1`, [16]byte(id))
	if headers, err := callbacks.Headers(t.Context(), id); err != nil || string(headers) != `{"traceparent": "p"}` {
		t.Errorf("headers: %s, %v; want the trace alone", headers, err)
	}
	if headers, err := callbacks.Headers(t.Context(), payment.NewID()); err != nil || headers != nil {
		t.Errorf("headers of none: %s, %v", headers, err)
	}
	report := payment.Outcome{
		AttemptID: payment.NewID(), Claim: payment.Claim{OutboxID: id, RailType: celltest.Bank},
		Result:   payment.ResultExecuted,
		Decision: payment.Decision{State: payment.Dispatched}, RailReference: "b-1", WorkerID: "callbacks-1",
	}
	for _, want := range []payment.Verdict{payment.VerdictSettled, payment.VerdictMine} {
		if verdict, err := callbacks.RecordLate(t.Context(), report); err != nil || verdict != want {
			t.Errorf("recorded: %s, %v; want %s", verdict, err, want)
		}
	}

	// What only a worker may say is dropped or refused.
	report.AttemptID, report.Claim.OutboxID, report.Claim.AttemptNo, report.Claim.ClaimedAt = payment.NewID(), other, 1,
		time.Now()
	report.Result, report.Decision = payment.ResultRefused,
		payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
	claims := claimAll(t, d.exec)
	if len(claims) != 1 {
		t.Fatalf("%d claims, want 1", len(claims))
	}
	report.Claim.AttemptNo, report.Claim.ClaimedAt = claims[0].AttemptNo, claims[0].ClaimedAt
	report.Latency = time.Second
	if verdict, err := callbacks.RecordLate(t.Context(), report); err != nil || verdict != payment.VerdictIn {
		t.Errorf("recorded: %s, %v", verdict, err)
	}
	if n := d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
		AND worker_id = 'callbacks-1' AND latency_ms IS NOT NULL`, [16]byte(other)); n != 0 {
		t.Error("a report has the latency of a send")
	}
	report.AttemptID, report.Decision = payment.NewID(),
		payment.Decision{State: payment.Retryable, Requeue: true, NextAction: payment.ActionSend}
	if _, err := callbacks.RecordLate(t.Context(), report); ledger.SQLState(err) != "RH002" {
		t.Errorf("a report that sends again: %v, want RH002", err)
	}
	if err := callbacks.Suspend(t.Context(), "callbacks-1", outbox.CauseRowsMissing, "a test", server.Now); err != nil {
		t.Error(err)
	}
}

// TestCallbackSaysNoMore: what the role's own function takes from a caller that goes
// past the endpoint.
func TestCallbackSaysNoMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.claimOne(d.enqueue()).OutboxID
	conn := d.Conn(t, celltest.Callbacks)
	for name, report := range map[string]string{
		"executed and refused": `{"state":"DISPATCHED","result":"REFUSED","rail_type":"bank"}`,
		"failed by itself":     `{"state":"FAILED","rail_type":"bank"}`,
		"no rail":              `{"state":"FAILED","result":"REFUSED"}`,
		"an empty rail":        `{"state":"DISPATCHED","result":"EXECUTED","rail_type":""}`,
	} {
		_, err := conn.Exec(t.Context(), `SELECT railhead.record_callback($1::jsonb || jsonb_build_object('outbox_id', $2::text, 'attempt_id', gen_random_uuid()))`, report, id.String())
		if ledger.SQLState(err) != "RH002" {
			t.Errorf("%s: %v, want RH002", name, err)
		}
	}
	var verdict string
	if err := conn.QueryRow(t.Context(), `
		SELECT railhead.record_callback('{"state":"FAILED","result":"REFUSED","rail_type":"bank","dead_reason":"TAMPERED"}'::jsonb
		  || jsonb_build_object('outbox_id', $1::text, 'attempt_id', gen_random_uuid()))`, id.String()).Scan(&verdict); err != nil {
		t.Fatal(err)
	}
	same(t, "letter", d.letter(id), "FAILED pending")
}
