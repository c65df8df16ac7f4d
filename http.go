package railhead

import (
	"context"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/payment"
)

// HTTPConfig is the configuration of an HTTPClient.
type HTTPConfig struct {
	// BaseURL is the URL of the API, such as https://payments.example.
	BaseURL string
	// Token returns the token in force. It is called for each attempt, so that a token can be
	// replaced without a restart. If it fails in each, the error of the call is its own: nothing was
	// sent. After an attempt whose answer was lost, or that has stored a part of a batch, it is
	// ErrCommitUnknown.
	Token func(ctx context.Context) (string, error)
	// ParticipantID is the participant whose instructions Status and Await read.
	ParticipantID string
	// Transport makes one call; nil is http.DefaultTransport. The client follows no redirect: it
	// sends the token only to the host of BaseURL.
	Transport http.RoundTripper
	// Attempts is the maximum of attempts of one call, and of those of a batch in a row by which no
	// instruction is answered for good; 0 is 6.
	Attempts int
	// Backoff is the wait before the second attempt, which doubles up to 10 s; 0 is 250 ms, and more
	// than 10 s is 10 s. Where the API asks for a longer one, such as by a quota, it is kept, up to two
	// minutes.
	Backoff time.Duration
	// Timeout bounds one attempt, in addition to the time for which it asks the API to wait for
	// an outcome, and to 20 ms for each instruction of a batch; 0 is 15 s, and more than a week is a week.
	Timeout time.Duration
}

// HTTPClient enqueues over HTTP. It repeats a call with the same key if there is no answer of the API,
// and after 408, 429 and 5xx. What anything else has answered, such as a gateway, refuses nothing and
// is no [ErrNotFound]: an enqueue is then [ErrCommitUnknown]. Where every attempt was refused a
// connection, or ctx had ended before the first one, the error says that nothing was sent, and is not
// [ErrCommitUnknown]. It is safe for concurrent use.
type HTTPClient struct{ http *httpclient.HTTP }

// NewHTTP returns a client of the HTTP API. It connects with the first call; an error is about config.
func NewHTTP(config HTTPConfig) (*HTTPClient, error) {
	made, err := httpclient.NewHTTP(httpclient.Config(config))
	if err != nil {
		return nil, err
	}
	return &HTTPClient{made}, nil
}

// Enqueue stores one instruction, and returns once it is durable. It sends traceparent and
// tracestate of the instruction's headers, but not the trace of ctx.
func (c *HTTPClient) Enqueue(ctx context.Context, in Instruction) (Receipt, error) {
	receipt, err := c.http.Enqueue(ctx, payment.Instruction(in))
	return Receipt(receipt), err
}

// EnqueueBatch stores up to 10,000 instructions, streamed as NDJSON, without their headers. It
// sends lines again that have no answer, were not read or may be stored later. One that is refused with
// a code until its attempts have run out, such as with [ErrEnqueueClosed], has that refusal as its
// fault. An error means that some of them got no answer. It is [ErrCommitUnknown] if any of them is or
// may be stored, whatever has ended the call: repeat it with the same keys.
func (c *HTTPClient) EnqueueBatch(ctx context.Context, all []Instruction) ([]Result, error) {
	results, err := c.http.EnqueueBatch(ctx, instructions(all))
	return resultsOf(results), err
}

// Status returns the status of an instruction of HTTPConfig.ParticipantID that was enqueued over
// HTTP. One that was enqueued in another cell, before the participant was moved to that of BaseURL,
// has the state [StateElsewhere]. If several cells of the API have a payment of the key, the error is
// [ErrSeveralPayments]. While an earlier call of Enqueue may be under way, [ErrNotFound] decides
// nothing: repeat that, with the same ids and content, before any payment in another way.
func (c *HTTPClient) Status(ctx context.Context, key Key) (Status, error) {
	status, err := c.http.Status(ctx, payment.Key(key))
	return Status(status), err
}

// Await waits until an instruction has ended or waits for an operator, by long polling. When ctx
// ends it returns the last status with the error of ctx. An instruction with the state
// [StateElsewhere] is not waited for: Await returns that status and [ErrOtherCell].
func (c *HTTPClient) Await(ctx context.Context, key Key) (Status, error) {
	status, err := c.http.Await(ctx, payment.Key(key))
	return Status(status), err
}
