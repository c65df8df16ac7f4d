package callback_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	reader "github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/railsim"
)

func sign(t testing.TB, secret, event, stamp, body string) string {
	t.Helper()
	mac := hmac.New(sha256.New, key(t, secret))
	mac.Write([]byte(event + "." + stamp + "." + body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// TestRefusals tests that a callback that is unsigned, unreadable or not ours changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	w.claim(id)
	wrong := "whsec_" + base64.StdEncoding.EncodeToString([]byte("another sender signs by this one"))
	for _, c := range []struct {
		what   string
		answer *http.Response
		status int
		heard  string
	}{
		{"another secret", w.postSigned(w.rail, "evt_1", w.says(id, "EXECUTED", "RS1"),
			func(event, stamp, body string) string {
				return sign(t, wrong, event, stamp, body)
			}), http.StatusUnauthorized, callback.Unsigned},
		{"tampered", w.postSigned(w.rail, "evt_1", w.says(id, "EXECUTED", "RS1"), func(event, stamp, _ string) string {
			return sign(t, simrail.CallbackSecret, event, stamp, w.says(id, "REFUSED", "RS1"))
		}), http.StatusUnauthorized, callback.Unsigned},
		{"an old time", w.postSigned(w.rail, "evt_1", w.says(id, "EXECUTED", "RS1"), func(event, _, body string) string {
			return sign(t, simrail.CallbackSecret, event, "1700000000", body)
		}), http.StatusUnauthorized, callback.Unsigned},
		{"no JSON", w.post(w.rail, "evt_1", "EXECUTED"), http.StatusBadRequest, callback.Unreadable},
		{"another kind of key", w.post(w.rail, "evt_1", strings.Replace(w.says(id, "EXECUTED", "RS1"), "rh", "xx", 1)), http.StatusBadRequest, callback.Unreadable},
		{"too long", w.post(w.rail, "evt_1", w.says(id, "EXECUTED", strings.Repeat("x", reader.MaxBody))), http.StatusBadRequest, callback.Unreadable},
		{"unknown payment", w.post(w.rail, "evt_1", saysKey(payment.RailKey(payment.NewID()), "EXECUTED", "RS1")), http.StatusNotFound, callback.NotOurs},
		{"another rail's payment", w.post(celltest.Bank, "evt_1", w.says(id, "EXECUTED", "RS1")), http.StatusNotFound, callback.NotOurs},
		{"no news", w.post(w.rail, "evt_1", w.says(id, "IN_PROGRESS", "RS1")), http.StatusNoContent, callback.NoNews},
		{"no known word", w.post(w.rail, "evt_1", w.says(id, "RECEIVED", "RS1")), http.StatusNoContent, callback.Unmapped},
	} {
		if c.answer.StatusCode != c.status {
			t.Errorf("%s: %s, want %d", c.what, c.answer.Status, c.status)
		}
		w.hears(c.heard)
	}
	if answer := w.post("nothing", "evt_1", w.says(id, "EXECUTED", "RS1")); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a rail that takes none: %s", answer.Status)
	}
	if answer, err := http.Get(w.url + "/callbacks/" + w.rail); err != nil ||
		answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %v, %v", answer.Status, err)
	}
	w.tells("after all of them", id, "DISPATCHING")
	if n := w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`); n != 1 {
		t.Errorf("%d rows, want the claim alone", n)
	}
	// An event id that was refused is not used up.
	if answer := w.post(w.rail, "evt_1", w.says(id, "EXECUTED", "RS1")); answer.StatusCode != http.StatusNoContent {
		t.Errorf("the true one: %s", answer.Status)
	}
	w.hears("IN")
	w.tells("after the true one", id, "DISPATCHING DISPATCHED(1)")
}

// TestCutCallback tests a report whose body does not come whole: the rail has to send it again.
func TestCutCallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	w.must(err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /callbacks/"+w.rail+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"key\"")
	w.must(err)
	w.must(conn.(*net.TCPConn).CloseWrite())
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	w.must(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s, %v", answer.Status, answer.Header)
	}
	w.hears(callback.Failed)
}

// TestSentAgain tests that the same event is recognized by its id, and equal evidence by its
// content.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	w.claim(id)
	for _, event := range []string{"evt_1", "evt_1", "evt_2"} {
		if answer := w.post(w.rail, event, w.says(id, "EXECUTED", "RS1")); answer.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %s", event, answer.Status)
		}
	}
	w.hears("IN", "MINE", "REPEATED")
	w.tells("after three", id, "DISPATCHING DISPATCHED(1)")
	// The same id of another rail is another event.
	w.post(celltest.Bank, "evt_1", w.says(id, "EXECUTED", "RS1"))
	w.hears(callback.NotOurs)
}

// TestOneEventIDTwoReports tests a rail that numbers its events by payment and reports under one id
// that it refused, and then that it executed. The second report is evidence too.
func TestOneEventIDTwoReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	w.claim(id)
	w.post(w.rail, "evt_1", w.says(id, "REFUSED", ""))
	w.hears("IN")
	w.post(w.rail, "evt_1", w.says(id, "EXECUTED", "RS1"))
	w.hears("CONFLICT")
	w.post(w.rail, "evt_1", w.says(id, "EXECUTED", "RS1"))
	w.hears("MINE")
	other := w.enqueue()
	w.claim(other)
	w.post(w.rail, "evt_1", w.says(other, "EXECUTED", "RS2"))
	w.hears("IN")
	w.tells("the other payment", other, "DISPATCHING DISPATCHED(1)")
}

// TestRetired tests that a callback about a payment that has left the archive with its month gets
// an answer that ends its repetition.
func TestRetired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	w.claim(id)
	var partition string
	w.cell.QueryRow(`SELECT tableoid::regclass::text FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`,
		[]any{[16]byte(id)}, &partition)
	w.cell.Exec(`ALTER TABLE railhead.payment_outbox_attempts DETACH PARTITION ` + partition)
	if answer := w.post(w.rail, "evt_1", w.says(id, "EXECUTED", "RS1")); answer.StatusCode != http.StatusNoContent {
		t.Errorf("it is answered by %s", answer.Status)
	}
	w.hears(string(payment.VerdictRetired))
	w.tells("after it", id, "")
}

// TestAtEveryPlace tests that a callback ends an open claim, a provisional acceptance, and a parked
// payment; each by EXECUTED and by REFUSED.
func TestAtEveryPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refuse := railsim.Fault{Kind: railsim.RefuseSettle, Probability: 1, Code: "AC04"}
	for _, c := range []struct {
		what     string
		bring    func() payment.ID
		executed string
		refused  string
		heard    string
	}{
		{"open claim", func() payment.ID { return w.claim(w.enqueue()).OutboxID },
			"DISPATCHING DISPATCHED(1)", "DISPATCHING FAILED(1), letter FAILED pending", "IN"},
		{"accepted for now", func() payment.ID {
			claim := w.claim(w.enqueue())
			w.record(claim, payment.ResultAccepted, "")
			return claim.OutboxID
		}, "DISPATCHING ACCEPTED(1) LATE_OUTCOME DISPATCHED",
			"DISPATCHING ACCEPTED(1) LATE_OUTCOME FAILED, letter FAILED pending", "SETTLED"},
		{"parked", func() payment.ID {
			claim := w.claim(w.enqueue())
			w.record(claim, payment.ResultUnknown, "")
			return claim.OutboxID
		}, "DISPATCHING UNKNOWN(1) PARKED LATE_OUTCOME DISPATCHED, letter OUTCOME_UNKNOWN resolved",
			"DISPATCHING UNKNOWN(1) PARKED LATE_OUTCOME FAILED, letter FAILED pending", "SETTLED"},
	} {
		id := c.bring()
		w.pay(id)
		w.hears(c.heard)
		w.tells(c.what+", executed", id, c.executed)

		w.must(w.bank.SetFaults(refuse))
		id = c.bring()
		w.pay(id)
		w.hears(c.heard)
		w.tells(c.what+", refused", id, c.refused)
		w.must(w.bank.SetFaults())
	}
}

// TestFaultyCallbacks uses the callback faults of the simulated bank.
func TestFaultyCallbacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault railsim.Fault
		heard []string
		story string
	}{
		{railsim.Fault{Kind: railsim.CallbackLate, DelayMS: 300}, []string{"SETTLED"}, "DISPATCHING ACCEPTED(1) LATE_OUTCOME DISPATCHED"},
		{railsim.Fault{Kind: railsim.CallbackDuplicate, Times: 3}, []string{"SETTLED", "MINE", "MINE", "MINE"}, "DISPATCHING ACCEPTED(1) LATE_OUTCOME DISPATCHED"},
		{railsim.Fault{Kind: railsim.CallbackConflict}, []string{"SETTLED", "CONFLICT"}, "DISPATCHING ACCEPTED(1) LATE_OUTCOME DISPATCHED LATE_OUTCOME, letter CONFLICT pending"},
		{railsim.Fault{Kind: railsim.CallbackWrongReference}, []string{callback.Unreadable, callback.Unreadable}, "DISPATCHING ACCEPTED(1), INQUIRE"},
		{railsim.Fault{Kind: railsim.CallbackBadSignature}, []string{callback.Unsigned, callback.Unsigned}, "DISPATCHING ACCEPTED(1), INQUIRE"},
	} {
		w := newWorld(t) // the bank goes on calling back what is not taken
		c.fault.Probability = 1
		w.must(w.bank.SetFaults(c.fault))
		receipt := w.enqueueAs("one")
		claim := w.claim(receipt.OutboxID)
		w.record(claim, payment.ResultAccepted, "")
		w.pay(receipt.OutboxID)
		w.hears(c.heard...)
		w.tells(string(c.fault.Kind), receipt.OutboxID, c.story)
		want := "DISPATCHED"
		switch {
		case strings.Contains(c.story, "CONFLICT"):
			want = "CONFLICT" // no caller pays it again while a person compares
		case strings.Contains(c.story, "INQUIRE"):
			want = "ACCEPTED"
		}
		if again := w.enqueueAs("one"); again.State != want || !again.Replayed {
			t.Errorf("%s: enqueue answers %s, want %s", c.fault.Kind, again.State, want)
		}
	}
}

// TestDatabaseAway tests that no callback is accepted that is not durable, and that the bank
// repeats it until it is.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	w.claim(id)
	w.store.isAway.Store(true)
	answer := w.post(w.rail, "evt_by_hand", w.says(id, "EXECUTED", "RS1"))
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("answered %s, Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))
	}
	w.hears(callback.Failed)
	w.pay(id)
	w.hears(callback.Failed)
	w.store.isAway.Store(false)
	for heard := callback.Failed; heard != "IN"; {
		if heard = <-w.heard; heard != callback.Failed && heard != "IN" {
			t.Fatalf("heard %s", heard)
		}
	}
	w.tells("after the bank sent it again", id, "DISPATCHING DISPATCHED(1)")
}

// TestConflictingSends tests two contradicting reports of one payment.
func TestConflictingSends(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		first, second string // status and reference
		heard         []string
		letter        string
	}{
		{"EXECUTED RS1", "EXECUTED RS2", []string{"IN", "CONFLICT"}, ", letter CONFLICT pending"},
		{"EXECUTED RS1", "REFUSED RS1", []string{"IN", "CONFLICT"}, ", letter CONFLICT pending"},
		{"REFUSED RS1", "EXECUTED RS1", []string{"IN", "CONFLICT"}, ", letter CONFLICT pending"},
		{"REFUSED RS1", "REFUSED RS1", []string{"IN", "LATE"}, ", letter FAILED pending"},
	} {
		id := w.claim(w.enqueue()).OutboxID
		for n, word := range []string{c.first, c.second} {
			status, reference, _ := strings.Cut(word, " ")
			w.post(w.rail, id.String()+string(rune('a'+n)), w.says(id, status, reference))
		}
		w.hears(c.heard...)
		if story := w.story(id); !strings.HasSuffix(story, c.letter) {
			t.Errorf("%s, then %s: %s, want it to end with %s", c.first, c.second, story, c.letter)
		}
	}
}

// TestNew tests that invalid arguments are refused.
func TestNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file, err := simrail.Rails(w.bank)
	w.must(err)
	readers, err := simrail.Callbacks(file)
	w.must(err)
	if _, err := callback.NewReceiver(nil, w.store, "worker", 1, nil, nil); err == nil {
		t.Error("no rail was taken")
	}
	for _, worker := range []string{"", "worker"} {
		if _, err := callback.NewReceiver(readers, w.store, worker, 0, nil, nil); err == nil {
			t.Errorf("worker %q without a timeout was taken", worker)
		}
	}
}

// TestUnknownPaymentBeforeALook tests that an unknown payment is not answered as unknown on a
// restarted server that no relayer has compared, whatever this endpoint found in its last check.
func TestUnknownPaymentBeforeALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unknown := saysKey(payment.RailKey(payment.NewID()), "EXECUTED", "RS1")
	w.cell.Exec(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status)
		VALUES ('relayer-1', 'relayer', 'h', 'v', 'running')`)
	if answer := w.post(w.rail, "evt_1", unknown); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("no relayer has compared: %s", answer.Status)
	}
	w.hears(callback.Failed)
	w.cell.Exec(`UPDATE railhead.outbox_heartbeats SET vouched = true`)
	if answer := w.post(w.rail, "evt_1", unknown); answer.StatusCode != http.StatusNotFound {
		t.Errorf("one has: %s", answer.Status)
	}
	w.hears(callback.NotOurs)
}

// TestUnknownPaymentWhileSuspended tests that a payment that the database may have forgotten is
// asked for again, and that one that was never ours is not.
func TestUnknownPaymentWhileSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unknown := saysKey(payment.RailKey(payment.NewID()), "EXECUTED", "RS1")
	for _, c := range []struct {
		suspended bool
		status    int
		heard     string
	}{{true, http.StatusServiceUnavailable, callback.Failed}, {false, http.StatusNotFound, callback.NotOurs}} {
		w.suspended.Store(c.suspended)
		answer := w.post(w.rail, "evt_1", unknown)
		if answer.StatusCode != c.status || (answer.Header.Get("Retry-After") != "") != c.suspended {
			t.Errorf("suspended %t: %s, Retry-After %q", c.suspended, answer.Status, answer.Header.Get("Retry-After"))
		}
		w.hears(c.heard)
	}
	// A known payment is recorded nevertheless.
	id := w.enqueue()
	w.claim(id)
	w.suspended.Store(true)
	if answer := w.post(w.rail, "evt_2", w.says(id, "EXECUTED", "RS1")); answer.StatusCode != http.StatusNoContent {
		t.Errorf("a known payment: %s", answer.Status)
	}
	w.hears("IN")
}
