package httpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Config configures a client. A zero field has the default that its comment names.
type Config struct {
	// BaseURL is the address of the API, such as https://payments.example.
	BaseURL string
	// Token returns the token in force. An attempt without one sends nothing.
	Token func(ctx context.Context) (string, error)
	// ParticipantID is the participant whose instructions Status and Await search.
	ParticipantID string
	// Transport makes one call; http.DefaultTransport. No redirect is followed: the token is sent
	// only to the configured host.
	Transport http.RoundTripper
	// Attempts bounds the attempts of a call, and those of a batch in a row that end no line; 6.
	Attempts int
	// Backoff is the wait before the first repetition; it doubles up to 10 s, and more is 10 s; 250 ms.
	Backoff time.Duration
	// Timeout bounds one attempt, in addition to the time that it waits for an outcome, and for each line of a
	// batch; more than a week is a week; 15 s.
	Timeout time.Duration
}

const (
	backoffMax   = 10 * time.Second
	timeoutMax   = 7 * 24 * time.Hour
	askedMax     = 2 * time.Minute  // that an answer asks to wait for
	waitMax      = 25 * time.Second // for an outcome, in one call
	answerMax    = 4 << 20          // bytes, of an answer to anything but a batch
	keyMax       = 128              // bytes, of a key
	traceMax     = 1024             // bytes, of a trace that the API keeps
	batchItemMax = 10_000
)

// HTTP is a client of the HTTP API. It repeats a call with the same key after no answer of the
// API, 408, 429 and 5xx.
type HTTP struct {
	config Config
	client *http.Client
}

// NewHTTP returns a client. It connects at the first call.
func NewHTTP(config Config) (*HTTP, error) {
	base, err := url.Parse(config.BaseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the base URL: %w", err)
	case base.Scheme != "https" && base.Scheme != "http" || base.Host == "":
		return nil, errors.New("the base URL must be one of https, such as https://payments.example")
	case config.Token == nil:
		return nil, errors.New("the client needs a token")
	case config.Attempts < 0 || config.Backoff < 0 || config.Timeout < 0:
		return nil, errors.New("attempts, back-off and timeout must not be below 0")
	}
	config.BaseURL = strings.TrimRight(config.BaseURL, "/")
	config.Attempts = cmp.Or(config.Attempts, 6)
	config.Backoff = min(cmp.Or(config.Backoff, 250*time.Millisecond), backoffMax)
	config.Timeout = min(cmp.Or(config.Timeout, 15*time.Second), timeoutMax)
	return &HTTP{config: config, client: &http.Client{
		Transport:     config.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// instruction is the body of an enqueue.
type instruction struct {
	InstructionID  string          `json:"instruction_id"`
	ParticipantID  string          `json:"participant_id"`
	RailType       string          `json:"rail_type"`
	Payload        json.RawMessage `json:"payload"`
	NotBefore      *time.Time      `json:"not_before,omitempty"`
	ExpiresAt      *time.Time      `json:"expires_at,omitempty"`
	Priority       int             `json:"priority"`
	SendOnce       bool            `json:"send_once,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
}

func bodyOf(in payment.Instruction) instruction {
	body := instruction{
		InstructionID: in.InstructionID, ParticipantID: in.ParticipantID, RailType: in.RailType, Payload: in.Payload,
		Priority: in.Priority.Number(),
		SendOnce: in.SendOnce,
	}
	if !in.NotBefore.IsZero() {
		body.NotBefore = &in.NotBefore
	}
	if !in.ExpiresAt.IsZero() {
		body.ExpiresAt = &in.ExpiresAt
	}
	return body
}

// Enqueue enqueues one instruction, and returns once it is durable. It does not send the trace of
// ctx, but traceparent and tracestate of the instruction's headers.
func (h *HTTP) Enqueue(ctx context.Context, in payment.Instruction) (payment.Receipt, error) {
	body, err := json.Marshal(bodyOf(in))
	if err != nil {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, notJSON(in))
	}
	headers := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {keyHeader(in.IdempotencyKey)}}
	if len(in.IdempotencyKey) > keyMax || !inHeader(in.IdempotencyKey) {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, &outbox.Fault{
			SQLState: outbox.StateInvalid, Field: "idempotency_key", Rule: "FORM",
			Message: "idempotency_key must be 1 to 128 printable ASCII characters without spaces at its ends"})
	}
	// What the API does not keep as a trace prevents no payment.
	if parent, state := in.Headers["traceparent"], in.Headers["tracestate"]; len(parent)+len(state) <= traceMax {
		for name, value := range map[string]string{"traceparent": parent, "tracestate": state} {
			if value != "" && inHeader(value) {
				headers.Set(name, value)
			}
		}
	}
	answer := one{participantID: in.ParticipantID, key: payment.Key{InstructionID: in.InstructionID,
		IdempotencyKey: in.IdempotencyKey}}
	if err := h.call(ctx, http.MethodPost, "/v1/instructions", headers, body, 0, &answer); err != nil {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, err)
	}
	return answer.receipt(), nil
}

// keyHeader returns the header of a key. As a string of structured fields (RFC 9651) it is sent as it is, where it
// would be changed on its way: servers cut spaces off, and the API the quotes of such a string.
func keyHeader(key string) string {
	if strings.Trim(key, " \t") != key || strings.HasPrefix(key, `"`) {
		return `"` + key + `"`
	}
	return key
}

// inHeader reports whether a header can contain a text.
func inHeader(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == '\x7f' })
}

// notJSON returns the fault of an instruction that can't be written as JSON.
func notJSON(in payment.Instruction) *outbox.Fault {
	for _, field := range []struct {
		name   string
		moment time.Time
	}{{"not_before", in.NotBefore}, {"expires_at", in.ExpiresAt}} {
		if _, err := field.moment.MarshalJSON(); err != nil {
			return &outbox.Fault{SQLState: outbox.StateInvalid, Field: field.name, Rule: "RANGE",
				Message: field.name + ": it must be a moment of RFC 3339, in the years 0 to 9999"}
		}
	}
	return &outbox.Fault{SQLState: outbox.StateInvalid, Message: "payload: it is not JSON", Field: "payload",
		Rule: "OBJECT"}
}

// Status returns what became of an instruction of Config.ParticipantID that was enqueued over HTTP.
func (h *HTTP) Status(ctx context.Context, key payment.Key) (payment.Status, error) {
	query := url.Values{"participant_id": {h.config.ParticipantID}, "instruction_id": {key.InstructionID},
		"idempotency_key": {key.IdempotencyKey}}
	found := page{participantID: h.config.ParticipantID, key: key}
	err := h.call(ctx, http.MethodGet, "/v1/instructions?"+query.Encode(), nil, nil, 0, &found)
	if errors.Is(err, outbox.ErrNotFound) {
		err = errNoOperation // of a list 404 says nothing of a payment
	}
	if err != nil {
		return payment.Status{}, fmt.Errorf("status of instruction %q: %w", key.InstructionID, err)
	}
	status, err := found.status()
	if err != nil {
		err = fmt.Errorf("instruction %q with key %q: %w", key.InstructionID, key.IdempotencyKey, err)
	}
	return status, err
}

// Await waits until an instruction rests, by calls that wait for the outcome. Where the API, or something on the way
// to it, does not wait, Await pauses between the calls as between attempts, longer each time. If its payment is in
// another cell, Await returns outbox.ErrOtherCell.
func (h *HTTP) Await(ctx context.Context, key payment.Key) (payment.Status, error) {
	last, err := h.Status(ctx, key)
	for early := 0; err == nil && !last.Rests(); {
		if last.State == payment.Elsewhere {
			err = fmt.Errorf("%w: the payment of instruction %q is in another cell, where it was enqueued before its "+
				"participant was moved", outbox.ErrOtherCell, key.InstructionID)
			break
		}
		answer := one{participantID: h.config.ParticipantID, key: key}
		headers := http.Header{"Prefer": {fmt.Sprintf("wait=%d", int(waitMax.Seconds()))}}
		began := time.Now()
		if err = h.call(ctx, http.MethodGet, "/v1/instructions/"+last.OutboxID.String(), headers, nil, waitMax,
			&answer); err != nil {
			break
		}
		if last = answer.Status; last.Rests() || time.Since(began) > waitMax/2 {
			early = 0
			continue
		}
		early++
		err = h.pause(ctx, early, nil)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return last, err
}

// call repeats a call until its answer is final, and decodes the answer.
func (h *HTTP) call(
	ctx context.Context, method, path string, headers http.Header, body []byte, patience time.Duration, into answer,
) error {
	var last error
	doubt := false // some attempt may have succeeded
	for attempt := range h.config.Attempts {
		if attempt > 0 {
			if err := h.pause(ctx, attempt, last); err != nil {
				return errors.Join(err, inDoubt(doubt, last))
			}
		}
		done, err := h.once(ctx, method, path, headers, body, patience, into)
		if err == nil {
			return nil
		}
		doubt = doubt || errors.Is(err, outbox.ErrCommitUnknown)
		if done {
			return inDoubt(doubt, err)
		}
		last = err
	}
	return inDoubt(doubt, last)
}

// once makes one attempt. It reports whether the answer is final.
func (h *HTTP) once(
	ctx context.Context, method, path string, headers http.Header, body []byte, patience time.Duration, into answer,
) (bool, error) {
	trying, cancel := context.WithTimeout(ctx, h.config.Timeout+patience)
	defer cancel()
	response, err := h.send(trying, method, path, headers, bytes.NewReader(body))
	switch {
	case errors.Is(err, errNotSent):
		return ctx.Err() != nil, err
	case err != nil:
		return ctx.Err() != nil, fmt.Errorf("%w: no answer: %w", silence(method), err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	switch {
	case response.StatusCode >= 200 && response.StatusCode < 300:
		if err == nil {
			into.clear() // of what an earlier attempt was answered nothing counts
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			response.leave()
			return false, fmt.Errorf("%w: the answer was cut, or is not the API's", silence(method))
		}
		if err := into.whole(); err != nil {
			response.leave()
			return false, fmt.Errorf("%w: the answer is not the API's to this call: %w", silence(method), err)
		}
		return true, nil
	default:
		return response.refusal(method, text)
	}
}
