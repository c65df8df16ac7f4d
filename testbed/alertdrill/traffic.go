package alertdrill

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// enqueue enqueues n payments to a rail as an ingest team would, and returns the outbox ids. The
// payments expire after expires; 0 means never.
func (w *world) enqueue(ctx context.Context, rail string, n int, expires time.Duration) ([]string, error) {
	ids := make([]string, 0, n)
	for range n {
		w.enqueued++
		name := fmt.Sprintf("live-%s-%05d", rail, w.enqueued)
		var id string
		err := w.ingest.QueryRow(ctx, `SELECT e.outbox_id FROM `+cell+`.enqueue_payment_outbox($1, $2, $1, $3,
		  '{"amount": "10.50", "currency": "EUR", "debtor": {"account": "d"}, "creditor": {"account": "c"}}',
		  expires_at => CASE WHEN $4::bigint > 0 THEN now() + $4::bigint * interval '1 millisecond' END) e`,
			name, fmt.Sprintf("participant-%d", w.enqueued%20), rail, expires.Milliseconds()).Scan(&id)
		if err != nil {
			return nil, fmt.Errorf("enqueueing: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// flow enqueues n payments a second to a rail in the background until stop is called. It also ends
// with the context and at its own first error, which stop returns.
func (w *world) flow(ctx context.Context, rail string, n int) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(n))
		defer tick.Stop()
		for number := 0; ; number++ {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			_, err := w.ingest.Exec(ctx, `SELECT `+cell+`.enqueue_payment_outbox($1, $2, $1, $3,
			  '{"amount": "1.00", "currency": "EUR", "debtor": {"account": "d"}, "creditor": {"account": "c"}}')`,
				fmt.Sprintf("flow-%s-%d-%06d", rail, time.Now().UnixNano(), number), fmt.Sprintf("flow-%d", number%20), rail)
			if err != nil && ctx.Err() == nil && ledger.SQLState(err) != outbox.StateOtherCell {
				ended <- fmt.Errorf("the flow to %s: %w", rail, err)
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// startAPI starts an API, in place of one that runs, and returns the URL of its instructions.
func (w *world) startAPI(ctx context.Context, more ...string) (url string, err error) {
	if w.services["api"] != nil {
		if err := w.stop("api"); err != nil {
			return "", err
		}
	}
	addrFile := filepath.Join(w.dir, "api-callers.addr")
	more = append(more, "RAILHEAD_API_URL="+w.url("api"), "RAILHEAD_API_ADDR_FILE="+addrFile)
	if err := w.start(ctx, "api", more...); err != nil {
		return "", err
	}
	addr, err := os.ReadFile(addrFile)
	return "http://" + strings.TrimSpace(string(addr)) + "/v1/instructions", err
}

// revokedToken sends requests with a revoked token to an API until the fault is healed.
func (w *world) revokedToken(ctx context.Context) error {
	url, err := w.startAPI(ctx)
	if err != nil {
		return err
	}
	conn, err := w.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	token, id, err := operator.CreateToken(ctx, conn.Conn(), cell, operator.NewToken{
		Name: "run of the alerts", Participants: []string{"participant-1"}, Verbs: []string{outbox.VerbRead},
		ExpiresAt: time.Now().Add(time.Hour), Reason: "run of the alerts",
	})
	if err != nil {
		return err
	}
	if _, err := w.shell(ctx, nil, "railhead token revoke "+id+` --reason "run of the alerts"`); err != nil {
		return err
	}
	w.asked(ctx, url+"?participant_id=participant-1", token)
	return nil
}

// apiWithoutDatabase starts an API, disables its login, and sends requests to it until the fault
// is healed.
func (w *world) apiWithoutDatabase(ctx context.Context) error {
	url, err := w.startAPI(ctx)
	if err != nil {
		return err
	}
	if _, err := w.admin.Exec(ctx, `ALTER ROLE railhead_api_login NOLOGIN`); err != nil {
		return err
	}
	if _, err := w.admin.Exec(ctx, `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
		WHERE a.usename = 'railhead_api_login'`); err != nil {
		return err
	}
	w.asked(ctx, url, "")
	return nil
}

// refusingEndpoint starts deliveries to an endpoint that answers 500 until the fault is healed.
func (w *world) refusingEndpoint(ctx context.Context) ([]string, error) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		if !w.endpointTakes.Load() {
			answer.WriteHeader(http.StatusInternalServerError)
		}
	}))
	w.closing = append(w.closing, endpoint.Close)
	file := filepath.Join(w.dir, "events.yaml")
	text := fmt.Sprintf("endpoints:\n  - {id: shop, url: %q, secrets: [\"env:WEBHOOK_SECRET\"], all_participants: "+
		"true, from: BEGINNING, allow_private: true}\n", endpoint.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("secret", 5)))
	err := w.start(ctx, "events", "RAILHEAD_EVENTS_URL="+w.url("events"), "RAILHEAD_EVENTS_FILE="+file,
		"WEBHOOK_SECRET="+secret)
	return []string{"ENDPOINT=shop"}, err
}

// unsignedCallback sends one callback without a signature, which must be answered 401.
func (w *world) unsignedCallback(ctx context.Context, rail string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.calls+"/callbacks/"+rail,
		strings.NewReader("{}"))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("an unsigned callback was answered %s", answer.Status)
	}
	return nil
}

// asked sends requests to an API in the background until the fault is healed.
func (w *world) asked(ctx context.Context, url, token string) {
	asking, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- ask(asking, url, token) }()
	w.during(func() error {
		stop()
		return <-ended
	})
}

// ask sends ten requests a second until the context ends, whatever the answer is.
func ask(ctx context.Context, url, token string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			answer.Body.Close()
		}
	}
}
