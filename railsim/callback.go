package railsim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Event is the body of a callback.
type Event struct {
	// EventID is the same on every send of one event, and is also in the header webhook-id.
	EventID   string `json:"event_id"`
	Reference string `json:"reference"`
	Key       string `json:"key"`
	// Status is EXECUTED or REFUSED.
	Status string `json:"status"`
	// ID is the bank's own reference.
	ID string `json:"id"`
	// Code is the reason of a refusal; empty otherwise.
	Code string `json:"code"`
	// OccurredAt is the time of the ledger record, in UTC.
	OccurredAt time.Time `json:"occurred_at"`
}

// CallbackSummary counts callbacks since the bank started.
type CallbackSummary struct {
	Attempts  int64 `json:"attempts"`  // POSTs sent
	Delivered int64 `json:"delivered"` // answered 2xx
	GivenUp   int64 `json:"given_up"`  // events that were never answered 2xx in all their attempts
}

// maxAtOnce bounds the callbacks on the wire.
const maxAtOnce = 64

// maxBackoff is the ratio of the longest backoff to the first.
const maxBackoff = 100

// callbackSender sends the results of provisional payments. It does not persist them: a killed bank
// forgets the callbacks that it still owes, as real banks do, and inquiry has to find those
// payments.
type callbackSender struct {
	bank   *Bank
	cfg    Callback
	secret []byte
	client *http.Client
	wire   chan struct{}

	attempts, delivered, givenUp atomic.Int64
}

func newCallbackSender(b *Bank) *callbackSender {
	secret, _ := parseWebhookSecret(b.cfg.Callback.Secret) // the configuration was validated
	return &callbackSender{
		bank:   b,
		cfg:    b.cfg.Callback,
		secret: secret,
		wire:   make(chan struct{}, maxAtOnce),
		client: &http.Client{
			Timeout:       b.cfg.Callback.Timeout,
			Transport:     &http.Transport{MaxIdleConnsPerHost: maxAtOnce, MaxConnsPerHost: maxAtOnce, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (n *callbackSender) close() { n.client.CloseIdleConnections() }

// Callbacks counts the callbacks; all are zero if none are configured.
func (b *Bank) Callbacks() CallbackSummary {
	if b.callbacks == nil {
		return CallbackSummary{}
	}
	return CallbackSummary{
		Attempts:  b.callbacks.attempts.Load(),
		Delivered: b.callbacks.delivered.Load(),
		GivenUp:   b.callbacks.givenUp.Load(),
	}
}

// send delivers the callback of one record, with the faults that hit it, and returns when it is over.
func (n *callbackSender) send(r Record) {
	hit := n.bank.faults.apply(stageCallback, subject{key: r.Key, reference: r.Reference, creditor: r.Creditor,
		arrival: parseID(r.ID)})
	act := hit.other()
	if act.Kind == CallbackNever || !n.bank.sleep(hit.total(CallbackLate)) {
		return
	}
	event := Event{
		EventID:    "evt_" + r.ID,
		Reference:  r.Reference,
		Key:        r.Key,
		Status:     string(r.Kind),
		ID:         r.ID,
		Code:       r.Code,
		OccurredAt: r.Time,
	}
	secret := n.secret
	switch act.Kind {
	case CallbackWrongReference:
		event.Reference, event.Key = other(event.Reference), other(event.Key)
	case CallbackBadSignature:
		secret = bytes.Repeat([]byte{0}, len(n.secret))
	}
	n.deliver(event, secret)
	switch act.Kind {
	case CallbackDuplicate:
		set(&act.Times, 1)
		for range act.Times {
			n.deliver(event, secret)
		}
	case CallbackConflict:
		event.EventID += "-2"
		event.Status, event.Code = string(Executed), ""
		if r.Kind == Executed {
			event.Status, event.Code = string(Refused), "AC04"
		}
		n.deliver(event, secret)
	}
}

// deliver sends one event until it is answered 2xx, the attempts are used up, or the bank closes.
func (n *callbackSender) deliver(event Event, secret []byte) {
	body, err := json.Marshal(event)
	if err != nil {
		n.bank.log.Error("encode a callback", "id", event.ID, "error", err)
		return
	}
	wait := n.cfg.Backoff
	for attempt := 1; ; attempt++ {
		err := n.post(event.EventID, body, secret)
		if err == nil {
			n.delivered.Add(1)
			return
		}
		if attempt == n.cfg.Attempts {
			n.givenUp.Add(1)
			n.bank.log.Warn("give up a callback", "event_id", event.EventID, "attempts", attempt, "error", err)
			return
		}
		if !n.bank.sleep(wait) {
			return
		}
		wait = min(2*wait, maxBackoff*n.cfg.Backoff)
	}
}

// post sends an event once. Each send is signed anew, with its own time.
func (n *callbackSender) post(id string, body, secret []byte) error {
	select {
	case n.wire <- struct{}{}:
		defer func() { <-n.wire }()
	case <-n.bank.ctx.Done():
		return context.Cause(n.bank.ctx)
	}
	req, err := http.NewRequestWithContext(n.bank.ctx, http.MethodPost, n.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("callback request: %w", err)
	}
	stamp := strconv.FormatInt(n.bank.cfg.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", stamp)
	req.Header.Set("webhook-signature", "v1,"+webhookSignature(secret, id, stamp, body))
	req.GetBody = nil // each send is counted, so the transport must not repeat one by itself
	n.attempts.Add(1)
	res, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("send callback: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("callback was answered %d", res.StatusCode)
	}
	return nil
}

// webhookSignature is the base64 of HMAC-SHA256(secret, id.timestamp.body).
func webhookSignature(secret []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.", id, stamp)
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
