package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// endless is a body of one line without an end.
type endless struct{ read int }

func (e *endless) Read(into []byte) (int, error) {
	for n := range into {
		into[n] = 'x'
	}
	e.read += len(into)
	return len(into), nil
}

// TestReaderEndsWithItsBatch: a line that is too long is not read on once the batch is over.
func TestReaderEndsWithItsBatch(t *testing.T) {
	a := &API{}
	a.config.BatchTimeMax, a.config.IdleMax, a.config.BodyBytesMax = time.Minute, time.Minute, 64<<10
	b := &batching{api: a, control: http.NewResponseController(httptest.NewRecorder()),
		until: time.Now().Add(time.Minute)}
	ctx, end := context.WithCancel(t.Context())
	calls := 0
	body := &endless{}
	_, _, err := oneLine(bufio.NewReader(body), 64<<10, batchBytesMax, func() error {
		if calls++; calls == 3 {
			end()
		}
		return ctx.Err()
	})
	if err == nil || calls != 3 || body.read > 256<<10 {
		t.Errorf("it read %d bytes in %d pieces: %v", body.read, calls, err)
	}
	b.read(ctx, body, make(chan readLine))
	if body.read > 256<<10 {
		t.Errorf("a reader that begins too late read up to %d bytes", body.read)
	}
}

// oneAtOnce takes one line in a call, and then stops the API.
type oneAtOnce struct {
	Store
	stop  func()
	calls int
}

func (o *oneAtOnce) EnqueueBatch(
	_ context.Context, _ outbox.Bearer, all []outbox.Entrusted,
) ([]outbox.ReceiptOrFault, error) {
	if len(all) > 1 {
		return nil, &outbox.Fault{SQLState: outbox.StateTooLarge}
	}
	o.calls++
	o.stop()
	return []outbox.ReceiptOrFault{{Receipt: payment.Receipt{OutboxID: payment.NewID(), State: "PENDING"}}}, nil
}

// TestPartsEndWithTheAPI: an API that stops sends no further part of a chunk, and says so of its lines.
func TestPartsEndWithTheAPI(t *testing.T) {
	store := &oneAtOnce{}
	a := &API{store: store}
	a.config.StoreTimeout, a.config.IdleMax = time.Minute, time.Minute
	a.draining, store.stop = context.WithCancel(t.Context())
	recorder := httptest.NewRecorder()
	b := &batching{api: a, known: &knownToken{}, control: http.NewResponseController(recorder),
		out: newAnswers(http.NewResponseController(recorder), time.Minute, time.Now()),
		end: batchLine{End: true, Status: http.StatusOK}, most: chunkLinesMax,
		held: map[string]heldLine{}}
	var chunk [][]byte
	for n := range 5 {
		chunk = append(chunk, fmt.Appendf(nil, `{"instruction_id": "i-%d", "participant_id": "p1", "idempotency_key": "k-%d", `+
			`"rail_type": "bank", "payload": {"amount": "1.00", "currency": "EUR"}}`, n, n))
	}
	if b.enqueue(t.Context(), chunk) {
		t.Error("the batch goes on")
	}
	var said []string
	for line := range bytes.Lines(b.out.text) {
		_, status, _ := strings.Cut(string(line), `"status":`)
		said = append(said, status[:3])
	}
	if got := strings.Join(said, " "); store.calls != 1 || got != "201 503 503 503 503" ||
		b.end.Status != 503 || b.end.Lines != 5 {
		t.Errorf("%d calls, %s, the end %+v: %s", store.calls, got, b.end, b.out.text)
	}
}
