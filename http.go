package railhead

import (
	"context"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/payment"
)

// HTTPConfig says how an HTTPClient reaches the API. A field that is zero has the default that its comment names.
type HTTPConfig struct {
	// BaseURL is where the API is, such as https://payments.example.
	BaseURL string
	// Token returns the token in force. It is called for each attempt, so that a token can be replaced without a restart.
	Token func(ctx context.Context) (string, error)
	// ParticipantID is whose instructions Status and Await look for.
	ParticipantID string
	// Transport makes one call; http.DefaultTransport. No redirect is followed: the token goes to BaseURL's host alone.
	Transport http.RoundTripper
	// Attempts is how often a call is made at most; 6.
	Attempts int
	// Backoff is the wait before the first repetition, which doubles up to 10 s; 250 ms.
	Backoff time.Duration
	// Timeout bounds one attempt, in addition to the time that it asks the API to wait for an outcome; 15 s.
	Timeout time.Duration
}

// HTTPClient enqueues over HTTP. It repeats a call with the same key after no answer, 429 and 5xx, and is safe for
// concurrent use.
type HTTPClient struct{ http *httpclient.HTTP }

// NewHTTP returns a client of the HTTP API. It connects with the first call; an error is about config.
func NewHTTP(config HTTPConfig) (*HTTPClient, error) {
	made, err := httpclient.NewHTTP(httpclient.Config(config))
	if err != nil {
		return nil, err
	}
	return &HTTPClient{made}, nil
}

// Enqueue stores one instruction, and returns once it is durable. The trace of ctx does not go along; traceparent and
// tracestate of the instruction's headers do.
func (c *HTTPClient) Enqueue(ctx context.Context, in Instruction) (Receipt, error) {
	receipt, err := c.http.Enqueue(ctx, payment.Instruction(in))
	return Receipt(receipt), err
}

// EnqueueBatch stores up to 10,000, streamed as NDJSON. Headers of instructions do not go along. Lines without an answer are
// sent again; an error means that some of them got none.
func (c *HTTPClient) EnqueueBatch(ctx context.Context, all []Instruction) ([]Result, error) {
	results, err := c.http.EnqueueBatch(ctx, instructions(all))
	return resultsOf(results), err
}

// Status returns what became of an instruction of HTTPConfig.ParticipantID that was enqueued over HTTP.
func (c *HTTPClient) Status(ctx context.Context, key Key) (Status, error) {
	status, err := c.http.Status(ctx, payment.Key(key))
	return Status(status), err
}

// Await waits until an instruction has ended or waits for an operator, by calls that the API answers with the outcome. When
// ctx ends it returns the last status with the error of ctx.
func (c *HTTPClient) Await(ctx context.Context, key Key) (Status, error) {
	status, err := c.http.Await(ctx, payment.Key(key))
	return Status(status), err
}
