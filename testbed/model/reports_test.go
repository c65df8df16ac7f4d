package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/payment"
	railcallback "github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/secret"
)

// report is what a rail says unasked, in an event.
type report struct {
	event     string
	result    payment.Result
	reference string
}

var callbackSecret = base64.StdEncoding.EncodeToString([]byte("what the rails of this test sign with"))

// receive is the product's receiver, for the rail of this history.
func (w *world) receive(t *rapid.T) http.Handler {
	var ref secret.Ref
	must(t, ref.UnmarshalText([]byte("env:SECRET")))
	table, err := codes.Named("iso20022")
	must(t, err)
	reader, err := railcallback.Open(railcallback.Config{
		Secrets: []secret.Ref{ref}, Key: "key", Status: "status", Reference: "reference",
		Statuses: map[string]payment.Result{"EXECUTED": payment.ResultExecuted, "REFUSED": payment.ResultRefused},
	}, table, func(string) string { return callbackSecret }, time.Now)
	must(t, err)
	readers := map[string]*railcallback.Reader{w.name: reader}
	taker, err := callback.NewReceiver(readers, w.reports, "callbacks", time.Minute, w, slog.New(slog.NewTextHandler(io.Discard, nil)))
	must(t, err)
	mux := http.NewServeMux()
	taker.Register(mux)
	return mux
}

// Received and Recorded make the world the receiver's observer.
func (w *world) Received(_, what string) { w.heard = what }

// Recorded is of no interest.
func (w *world) Recorded(payment.Outcome, payment.Verdict) {}

// railKey is what the rail knows an instruction by.
func (w *world) railKey(t *rapid.T, id payment.ID) (key string) {
	must(t, w.looker.QueryRow(w.ctx(), "SELECT 'rh' || replace(rail_key::text, '-', '') FROM railhead.payment_outbox_keys WHERE outbox_id = $1", id.String()).Scan(&key))
	return key
}

// callBack is the rail's final word, unasked: of one send, where there are more. A
// rail repeats what it has said, in the same event or in another, and some number
// their events so that two reports bear one id.
func (w *world) callBack(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool {
		return i.rail.executed > 0 || i.rail.refused || i.rail.notNow || len(i.rail.reports) > 0
	})
	said := report{
		event:  rapid.SampledFrom([]string{"e1", "e2"}).Draw(t, "event"),
		result: payment.ResultRefused, reference: one.rail.reference(payment.ResultRefused),
	}
	switch again := len(one.rail.reports) > 0 && rapid.Bool().Draw(t, "said before"); {
	case again:
		old := one.rail.reports[rapid.IntRange(0, len(one.rail.reports)-1).Draw(t, "report")]
		said.result, said.reference = old.result, old.reference
	case one.rail.executed > 0:
		said.result, said.reference = payment.ResultExecuted, one.rail.reference(payment.ResultExecuted)
	case !one.rail.refused && !one.rail.notNow:
		t.Skip("the rail has decided nothing")
	}
	one.rail.reports = append(one.rail.reports, said)

	d := payment.Decision{State: payment.Dispatched}
	if said.result == payment.ResultRefused {
		d = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
	}
	o := payment.Outcome{
		Claim:  payment.Claim{OutboxID: one.id, RailType: w.name},
		Result: said.result, Decision: d, RailReference: said.reference,
	}
	want := one.answered(o, "event "+said.event+" "+string(said.result)+" "+said.reference)
	if got := w.deliver(t, one, said); got != string(want) {
		t.Fatalf("callback %+v about %s: %s, want %s\nmodel %+v", said, one.id, got, want, one.model)
	}
}

// deliver sends a callback, signed as rails sign, and returns what was made of it.
func (w *world) deliver(t *rapid.T, one *instruction, said report) string {
	body := fmt.Sprintf(`{"key": %q, "status": %q, "reference": %q}`, one.rail.key, said.result, said.reference)
	request := httptest.NewRequestWithContext(w.ctx(), http.MethodPost, "/callbacks/"+w.name, strings.NewReader(body))
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	key, err := base64.StdEncoding.DecodeString(callbackSecret)
	must(t, err)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(said.event + "." + stamp + "." + body))
	request.Header.Set("webhook-id", said.event)
	request.Header.Set("webhook-timestamp", stamp)
	request.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	answer := httptest.NewRecorder()
	w.callbacks.ServeHTTP(answer, request)
	if answer.Code != http.StatusNoContent {
		t.Fatalf("callback about %s: %d %s", one.id, answer.Code, answer.Body)
	}
	return w.heard
}
