package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// callers holds the callers of all participants, and the intruder.
type callers struct {
	world *world
	each  []*caller
	alien *caller

	mu      sync.Mutex
	told    map[string]payment.Receipt // what was accepted, by instruction
	broken  []string                   // answers that contradict each other
	unknown atomic.Int64               // answers that could not say what was stored
	lost    atomic.Int64
	foreign atomic.Int64
}

// caller has a token of one participant.
type caller struct {
	participant string
	token       string
	client      *httpclient.HTTP
	transport   *losing
}

func newCallers(ctx context.Context, w *world) (*callers, error) {
	c := &callers{world: w, told: make(map[string]payment.Receipt)}
	conn, err := pgx.Connect(ctx, w.admin)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	make1 := func(participant string, n int) (*caller, error) {
		token, _, err := operator.CreateToken(ctx, conn, migrations.DefaultCell, operator.NewToken{
			Name: participant, Participants: []string{participant},
			Verbs:     []string{outbox.VerbEnqueue, outbox.VerbRead, outbox.VerbCancel},
			ExpiresAt: time.Now().Add(24 * time.Hour), Reason: "a run of make api",
		})
		if err != nil {
			return nil, err
		}
		one := &caller{participant: participant, token: token, transport: &losing{
			callers: c, under: &http.Transport{MaxIdleConnsPerHost: 4}, draws: rand.New(rand.NewPCG(w.Seed, uint64(n)+10)),
		}}
		one.client, err = httpclient.NewHTTP(httpclient.Config{
			BaseURL: "http://api.invalid", Token: func(context.Context) (string, error) { return token, nil },
			ParticipantID: participant,
			Transport:     one.transport, Attempts: 1, Timeout: 8 * time.Second,
		})
		return one, err
	}
	for n := range w.Participants {
		one, err := make1(fmt.Sprintf("participant-%02d", n), n)
		if err != nil {
			return nil, err
		}
		c.each = append(c.each, one)
	}
	c.alien, err = make1("intruder", w.Participants)
	return c, err
}

// losing sends each request to one of the APIs and loses some of the answers: half of those before
// the request is sent, half after it was answered.
type losing struct {
	callers *callers
	under   *http.Transport
	mu      sync.Mutex
	draws   *rand.Rand
}

var errLost = errors.New("lost on purpose")

func (l *losing) RoundTrip(request *http.Request) (*http.Response, error) {
	l.mu.Lock()
	to, drawn := l.draws.IntN(len(l.callers.world.wires)), l.draws.Float64()
	l.mu.Unlock()
	share := l.callers.world.Options.Lost
	if drawn < share/2 {
		l.callers.lost.Add(1)
		return nil, errLost
	}
	sent := request.Clone(request.Context())
	sent.URL = &url.URL{Scheme: "http", Host: l.callers.world.wires[to].addr(), Path: request.URL.Path,
		RawQuery: request.URL.RawQuery}
	response, err := l.under.RoundTrip(sent)
	if err == nil && drawn < share {
		l.callers.lost.Add(1)
		io.Copy(io.Discard, response.Body) //nolint:errcheck // it is lost anyhow
		response.Body.Close()
		return nil, errLost
	}
	return response, err
}

// run enqueues every payment, and repeats each call until it is accepted.
func (c *callers) run(ctx context.Context) error {
	var all sync.WaitGroup
	done, stop := context.WithCancel(ctx)
	defer stop()
	all.Go(func() { c.intrude(done) })
	var callers sync.WaitGroup
	errs := make(chan error, 2*len(c.each))
	for n, one := range c.each {
		// Two run at once for each participant: they share its row.
		for half := range 2 {
			callers.Go(func() { errs <- c.pay(ctx, one, n, half) })
		}
	}
	callers.Wait()
	stop()
	all.Wait()
	close(errs)
	var joined []error
	for err := range errs {
		joined = append(joined, err)
	}
	return errors.Join(joined...)
}

func (c *callers) pay(ctx context.Context, one *caller, n, half int) error {
	draws := rand.New(rand.NewPCG(c.world.Seed, uint64(1000+2*n+half)))
	for number := half; number < c.world.Payments/len(c.each); number += 2 {
		// All participants use the same ids and keys, and none can find out about another's.
		name, key := fmt.Sprintf("invoice-%d", number), fmt.Sprintf("key-%d", number)
		in := payment.Instruction{
			InstructionID: name, ParticipantID: one.participant, IdempotencyKey: key, RailType: "bank",
			Payload: fmt.Appendf(nil, `{"amount": "10.50", "currency": "EUR", "debtor": {"account": "%s"}, "creditor": {"account": "%s/%s"}}`, one.participant, one.participant, name),
		}
		for again := 0; again <= draws.IntN(3); again++ { // also when it was accepted
			if err := c.accepted(ctx, one, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// accepted repeats a call until it is accepted, and compares the receipt with earlier ones.
func (c *callers) accepted(ctx context.Context, one *caller, in payment.Instruction) error {
	for {
		receipt, err := one.client.Enqueue(ctx, in)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			name := one.participant + "/" + in.InstructionID
			if before, known := c.told[name]; known && (before.OutboxID != receipt.OutboxID || !receipt.Replayed) {
				c.broken = append(c.broken, fmt.Sprintf("%s was accepted as %s and then as %s", name, before.OutboxID,
					receipt.OutboxID))
			}
			c.told[name] = receipt
			return nil
		}
		if fault, refused := errors.AsType[*outbox.Fault](err); refused {
			return fmt.Errorf("participant %s: refused: %w", one.participant, fault)
		}
		if errors.Is(err, outbox.ErrCommitUnknown) {
			c.unknown.Add(1)
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// intrude requests what other callers were told, with a token that is not valid for it. An answer
// with status 2xx counts as a foreign read.
func (c *callers) intrude(ctx context.Context) {
	draws := rand.New(rand.NewPCG(c.world.Seed, 7))
	for ctx.Err() == nil {
		id, participant := payment.NewID(), fmt.Sprintf("participant-%02d", draws.IntN(len(c.each)))
		c.mu.Lock()
		for _, receipt := range c.told { // any one
			id = receipt.OutboxID
			break
		}
		c.mu.Unlock()
		for _, call := range []struct{ method, path, body string }{
			{"GET", "/v1/instructions/" + id.String(), ""}, {"GET", "/v1/instructions/" + id.String() + "/attempts", ""},
			{"POST", "/v1/instructions/" + id.String() + "/cancel", `{"reason": "an intruder"}`},
			{"GET", "/v1/instructions?participant_id=" + participant, ""},
			{"POST", "/v1/instructions", fmt.Sprintf(`{"instruction_id": "invoice-0", "participant_id": %q, "rail_type": "bank",
				"payload": {"amount": "10.50", "currency": "EUR", "debtor": {"account": "x"}, "creditor": {"account": "x"}}}`, participant)},
		} {
			if status := c.alien.try(ctx, call.method, call.path, call.body); status >= 200 && status < 300 {
				c.foreign.Add(1)
			}
		}
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

func (o *caller) try(ctx context.Context, method, path, body string) int {
	request, err := http.NewRequestWithContext(ctx, method, "http://api.invalid"+path, nil)
	if err != nil {
		return 0
	}
	if body != "" {
		request, err = http.NewRequestWithContext(ctx, method, "http://api.invalid"+path, readerOf(body))
		if err != nil {
			return 0
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", "key-0")
	}
	request.Header.Set("Authorization", "Bearer "+o.token)
	response, err := (&http.Client{Transport: o.transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}
