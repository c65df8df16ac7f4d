package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// endpointAt is an events file with one endpoint.
func endpointAt(url string) string {
	return fmt.Sprintf("endpoints:\n  - {id: shop, url: %q, secrets: [\"env:WEBHOOK_SECRET\"], participants: [p1], "+
		"from: BEGINNING, allow_private: true}\n", url)
}

// aRow appends a row of the archive to the instruction that was enqueued.
const aRow = `
	INSERT INTO railhead.payment_outbox_attempts
	  (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, outcome_unknown, provisional, priority, enqueued_at, next_attempt_at, next_action,
	   send_count, inquiry_count, claimed_at, worker_id)
	SELECT railhead.uuidv7(), k.outbox_id, 'p1', 'bank', %d, '%s', false, false, 1, now(), now(), 'SEND', 0, 0, now(), 'worker'
	FROM railhead.payment_outbox_keys k`

// TestEventsAreDelivered goes through an operator's work with an endpoint: it is tested, receives
// events, fails, is listed, is corrected and receives events again.
func TestEventsAreDelivered(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	var taken, tests atomic.Int64
	var refuses atomic.Bool
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case refuses.Load():
			w.WriteHeader(http.StatusTeapot)
		case strings.Contains(string(body), "railhead.test"):
			tests.Add(1)
		default:
			taken.Add(1)
		}
	}))
	defer endpoint.Close()
	who := command{t: t, env: []string{
		"RAILHEAD_INGEST_URL=" + cell.URL(celltest.Ingest), "RAILHEAD_EVENTS_URL=" + cell.URL(celltest.Events),
		"RAILHEAD_READER_URL=" + cell.URL(celltest.Readonly),
		"RAILHEAD_OPERATOR_URL=" + cell.URL(celltest.Operator),
		"RAILHEAD_EVENTS_FILE=" + writeFile(t, "events.yaml", endpointAt(endpoint.URL)),
		"WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}}
	if got := who.want(exitOK, "events", "test", "--endpoint", "shop"); !strings.HasPrefix(got.out,
		"endpoint shop accepted event evt_test_") || tests.Load() != 1 {
		t.Errorf("it says %s, %d tests came", got.out, tests.Load())
	}
	who.want(exitOK, "enqueue", "--instruction-id", "i1", "--participant-id", "p1", "--idempotency-key", "k1", "--rail",
		"bank",
		"--payload", `{"amount":"1.00","currency":"EUR","debtor":{"account":"a"},"creditor":{"account":"b"}}`)
	cell.Exec(fmt.Sprintf(aRow, 1, "ACCEPTED"))
	start(t, "events", cell.URL(celltest.Events), who.env...)
	eventually(t, "the event to be delivered", func() bool { return taken.Load() == 1 })

	refuses.Store(true)
	if got := who.want(exitFailure, "events", "test", "--endpoint", "shop"); !strings.Contains(got.errors, "HTTP_418") {
		t.Errorf("it says %s", got.errors)
	}
	cell.Exec(fmt.Sprintf(aRow, 2, "DISPATCHED"))
	eventually(t, "the event to wait", func() bool {
		return strings.Contains(who.want(exitOK, "events", "endpoints").out,
			"HTTP_418")
	})
	var listed []struct {
		Endpoint string `json:"endpoint_id"`
		Waiting  int    `json:"waiting"`
	}
	if err := json.Unmarshal([]byte(who.want(exitOK, "events", "endpoints", "-o", "json").out), &listed); err != nil ||
		len(listed) != 1 || listed[0].Waiting != 1 {
		t.Errorf("listed as %+v, %v", listed, err)
	}
	refuses.Store(false)
	if got := who.want(exitOK, "events", "redeliver", "--endpoint", "shop", "--reason",
		"mended"); !strings.Contains(got.out, " waiting events are due now") {
		t.Errorf("it says %s", got.out)
	}
	eventually(t, "it to be delivered", func() bool { return taken.Load() == 2 })
	who.want(exitOK, "events", "redeliver", "--endpoint", "shop", "--since",
		time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "--reason", "they lost a day")
	eventually(t, "both to be delivered again", func() bool { return taken.Load() == 4 })
	who.want(exitNotFound, "events", "redeliver", "--endpoint", "other", "--reason", "a slip")
	who.want(exitUsage, "events", "redeliver", "--endpoint", "shop", "--since", "yesterday", "--reason", "a slip")

	// A transaction of another database of the server holds what comes after it.
	open := cell.Conn(t, "")
	if _, err := open.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	cell.Exec(fmt.Sprintf(aRow, 3, "REPLAYED"))
	eventually(t, "the session to be named", func() bool {
		return strings.Contains(who.want(exitOK, "events", "held").out,
			fmt.Sprintf("that of process %d, login", open.PgConn().PID()))
	})
	if taken.Load() != 4 {
		t.Error("an event was told that is held")
	}
	if _, err := open.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it to be delivered then", func() bool { return taken.Load() == 5 })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	awaitThat(t, func() error {
		if !is() {
			return fmt.Errorf("waited for %s", what)
		}
		return nil
	})
}

// TestEventsOfAnotherRole: with another role's login no event could be delivered. The service ends,
// and names the role that it needs.
func TestEventsOfAnotherRole(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := command{t: t, env: []string{
		"RAILHEAD_EVENTS_URL=" + cell.URL(celltest.Ingest),
		"RAILHEAD_EVENTS_FILE=" + writeFile(t, "events.yaml", endpointAt("https://shop.invalid/")),
		"WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}}
	if got := who.want(exitDenied, "events"); !strings.Contains(got.errors,
		"RAILHEAD_EVENTS_URL takes a member of railhead_events") {
		t.Errorf("it says %s", got.errors)
	}
	who.env[2] = "WEBHOOK_SECRET=c2hvcnQ="
	if got := who.want(exitUsage, "events"); !strings.Contains(got.errors,
		"env:WEBHOOK_SECRET: a secret of an endpoint is the base64 of 24 to 64 bytes") {
		t.Errorf("it says %s", got.errors)
	}
}
