package railsim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var webhookKey = []byte("0123456789abcdef0123456789abcdef")

// received is one callback as its receiver sees it.
type received struct {
	event  Event
	valid  bool // signature and headers fit
	status int  // what the receiver answered
}

// receive opens a receiver of callbacks that answers with the given statuses, and then 204.
func receive(t *testing.T, statuses ...int) (Callback, <-chan received) {
	events := make(chan received, 100)
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := received{status: http.StatusNoContent}
		if n < len(statuses) {
			got.status = statuses[n]
		}
		n++
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &got.event)
		}
		if err != nil {
			t.Errorf("callback: %v", err)
		}
		id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		got.valid = err == nil && time.Since(time.Unix(seconds, 0)).Abs() < time.Minute &&
			id == got.event.EventID && r.Header.Get("webhook-signature") == "v1,"+webhookSignature(webhookKey, id, stamp, body)
		w.WriteHeader(got.status)
		events <- got
	}))
	t.Cleanup(srv.Close)
	return Callback{
		URL:     srv.URL + "/callbacks",
		Secret:  "whsec_" + base64.StdEncoding.EncodeToString(webhookKey),
		Backoff: time.Millisecond,
	}, events
}

func next(t *testing.T, events <-chan received) received {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no callback came")
		return received{}
	}
}

// The vector that the libraries of the scheme share. By hand: printf '%s.%s.%s' id stamp body | openssl dgst -sha256
// -mac HMAC -macopt hexkey:<hex of the decoded secret> -binary | base64
func TestWebhookSignatureVector(t *testing.T) {
	secret, err := parseWebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := webhookSignature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestProvisionalPaymentAndItsCallback(t *testing.T) {
	callback, events := receive(t)
	f := start(t, Config{Mode: Provisional, Callback: callback})
	g := f.pay("k", simple("r"))
	f.want(g, http.StatusAccepted, "ACCEPTED")
	e := next(t, events)
	if !e.valid || e.event.EventID != "evt_"+g.reply.ID || e.event.Status != "EXECUTED" || e.event.Key != "k" ||
		e.event.Reference != "r" || e.event.Code != "" || e.event.OccurredAt.IsZero() {
		t.Errorf("callback %+v", e)
	}
	f.want(f.inquire("k"), http.StatusOK, "EXECUTED")
	again := f.pay("k", simple("r"))
	f.want(again, http.StatusAccepted, "ACCEPTED") // the stored answer, though more is known by now
	if !replayed(again) {
		t.Errorf("again %v", again)
	}

	f.want(f.pay("c", order1("c", "1.00", "A", "CLOSED")), http.StatusAccepted, "ACCEPTED")
	if e := next(t, events); e.event.Status != "REFUSED" || e.event.Code != "AC04" {
		t.Errorf("callback %+v", e)
	}
	s := f.ledger(1, 1)
	if s.Accepted != 2 || s.Pending != 0 {
		t.Errorf("summary %+v", s)
	}
}

func TestCallbackIsRepeatedUntilItIsTaken(t *testing.T) {
	callback, events := receive(t, 500, 302, 404)
	f := start(t, Config{Mode: Provisional, Callback: callback})
	f.pay("k", simple("r"))
	for _, status := range []int{500, 302, 404, 204} {
		if e := next(t, events); e.status != status || !e.valid || e.event.Status != "EXECUTED" {
			t.Errorf("callback %+v, want one that is answered %d", e, status)
		}
	}
	for f.bank.Callbacks().Delivered == 0 && t.Context().Err() == nil {
		f.until("k", "EXECUTED") // a round trip, until the sender has read its answer too
	}
	if s := f.bank.Callbacks(); s.Attempts != 4 || s.Delivered != 1 || s.GivenUp != 0 {
		t.Errorf("summary %+v", s)
	}
}

func TestCallbackIsGivenUp(t *testing.T) {
	callback, events := receive(t, 500, 500, 500)
	callback.Attempts = 3
	f := start(t, Config{Mode: Provisional, Callback: callback})
	f.pay("k", simple("r"))
	for range 3 {
		next(t, events)
	}
	f.pay("k2", simple("r2")) // taken, which shows that the first was not tried a fourth time
	if e := next(t, events); e.event.Key != "k2" {
		t.Errorf("callback %+v", e)
	}
	f.ledger(2, 0)
}

func TestCallbackFaults(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  string // of each callback: event, status, code, reference, valid
	}{
		{Fault{Kind: CallbackNever}, ""},
		{Fault{Kind: CallbackLate, DelayMS: 20}, "evt_1 EXECUTED  r true"},
		{Fault{Kind: CallbackDuplicate, Times: 2}, "evt_1 EXECUTED  r true, evt_1 EXECUTED  r true, evt_1 EXECUTED  r true"},
		{Fault{Kind: CallbackConflict}, "evt_1 EXECUTED  r true, evt_1-2 REFUSED AC04 r true"},
		{Fault{Kind: CallbackWrongReference}, "evt_1 EXECUTED  r-other true"},
		{Fault{Kind: CallbackBadSignature}, "evt_1 EXECUTED  r false"},
		{Fault{Kind: DelaySettle, DelayMS: 20}, "evt_1 EXECUTED  r true"},
		{Fault{Kind: RefuseSettle, Code: "AM09"}, "evt_1 REFUSED AM09 r true"},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			t.Parallel()
			callback, events := receive(t)
			c.fault.Probability = 1
			c.fault.Match.KeyPrefix = "k"
			f := start(t, Config{Mode: Provisional, Callback: callback, Faults: []Fault{c.fault}})
			f.want(f.pay("k", simple("r")), http.StatusAccepted, "ACCEPTED")
			var have []string
			if c.want != "" {
				for range strings.Count(c.want, ",") + 1 {
					e := next(t, events)
					id := strings.Replace(e.event.EventID, "RS000000000001", "1", 1)
					have = append(have, fmt.Sprintf("%s %s %s %s %t", id, e.event.Status, e.event.Code, e.event.Reference, e.valid))
				}
			}
			if s := strings.Join(have, ", "); s != c.want {
				t.Errorf("callbacks %s\nwant      %s", s, c.want)
			}
			refused := 0
			word := "EXECUTED"
			if c.fault.Kind == RefuseSettle {
				refused, word = 1, "REFUSED"
			}
			f.until("k", word)
			f.pay("other", simple("other"))
			if e := next(t, events); e.event.Key != "other" { // nothing came between
				t.Errorf("callback %+v", e)
			}
			f.ledger(2-refused, refused)
			if n := f.bank.Faults().Totals[c.fault.Kind]; n != 1 {
				t.Errorf("injected %d times", n)
			}
		})
	}
}

// What was accepted when the bank closed is settled by its next life, once.
func TestAcceptedPaymentsSettleInTheNextLife(t *testing.T) {
	callback, events := receive(t)
	cfg := Config{Mode: Provisional, SettleDelay: time.Hour, MaxHang: time.Hour,
		LedgerPath: filepath.Join(t.TempDir(), "ledger.jsonl"), Callback: callback}
	f := start(t, cfg)
	first := f.pay("k", simple("r"))
	f.close()
	records, err := ReadLedger(cfg.LedgerPath)
	if err != nil || len(records) != 1 || records[0].Kind != Accepted {
		t.Fatalf("ledger %+v, %v", records, err)
	}
	if s := Summarise(records); s.Pending != 1 {
		t.Errorf("summary %+v", s)
	}

	cfg.SettleDelay = 0
	f = start(t, cfg)
	if e := next(t, events); e.event.ID != first.reply.ID || e.event.Status != "EXECUTED" {
		t.Errorf("callback %+v", e)
	}
	if again := f.pay("k", simple("r")); !replayed(again) || again.reply != first.reply {
		t.Errorf("again %v", again)
	}
	if s := f.ledger(1, 0); s.Pending != 0 || s.Records != 2 {
		t.Errorf("summary %+v", s)
	}
	f.close()
	f = start(t, cfg)
	if again := f.pay("k", simple("r")); !replayed(again) || again.reply != first.reply {
		t.Errorf("in the third life %v", again)
	}
	f.ledger(1, 0)
}

// However many listeners a bank has, what an earlier life accepted is settled once.
func TestManyListenersSettleOnce(t *testing.T) {
	c := newClock() // it stands still, so the next life waits for the whole delay again
	cfg := Config{Now: c.Now, Mode: Provisional, SettleDelay: time.Hour, MaxHang: time.Hour, MaxPayments: 1,
		LedgerPath: filepath.Join(t.TempDir(), "ledger.jsonl")}
	f := start(t, cfg)
	f.want(f.pay("k", simple("r")), http.StatusAccepted, "ACCEPTED")
	f.close()

	cfg.SettleDelay = 100 * time.Millisecond
	f = start(t, cfg)
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.bank.Serve(second) }()
	f.url = "http://" + second.Addr().String()
	f.until("k", "EXECUTED")
	f.close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	f = start(t, cfg) // at its bound of payments the bank still opens
	f.want(f.pay("k2", simple("r2")), http.StatusServiceUnavailable, "FULL")
	f.ledger(1, 0)
}
