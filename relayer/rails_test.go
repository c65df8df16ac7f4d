package relayer_test

import (
	"cmp"
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/relayer"
)

// second adds a rail to the bank, with the bank's profile.
func (w *world) second(name string, rail *hesitant) {
	w.t.Helper()
	w.cell.ApplyProfile(name, w.profile)
	rail.Rail = silentRail{}
	w.others = map[string]rails.Rail{name: rail}
}

// silentRail has no bank behind it.
type silentRail struct{}

func (silentRail) RenderVersion() string { return "silent/1" }
func (silentRail) Send(context.Context, rails.Send) rails.Result {
	return rails.Result{Result: payment.ResultNotSent}
}

// open makes the HTTP rail to the bank with the profile in force.
func (w *world) open(profile rails.Profile) (rails.Rail, error) {
	inquiry := ""
	if profile.Inquiry.Max > 0 {
		inquiry = `
      inquiry:
        path: ` + cmp.Or(w.asks, "/payments/by-key/{rail_key}") + `
        response: {status: status, reference: id, code: code, echo: reference,
          statuses: {EXECUTED: EXECUTED, REFUSED: REFUSED, IN_PROGRESS: IN_PROGRESS, NOT_FOUND: NOT_FOUND}}`
	}
	file, err := railconfig.Parse([]byte(`
rails:
  - rail_type: bank
    adapter: http
    profile: {acceptance: FINAL}
    http:
      base_url: `+w.url+`
      allow_plaintext: true
      allow_loopback: true
      send:
        path: /payments
        idempotency_header: Idempotency-Key
        body: {reference: rail_key, amount: amount.decimal, currency: currency, debtor: payload.debtor, creditor: payload.creditor}
        response: {status: status, statuses: {EXECUTED: OK, ACCEPTED: P, REFUSED: CODE}, reference: id, code: code, message: message, echo: reference}`+inquiry), os.Getenv)
	if err != nil {
		return nil, err
	}
	if other, ok := w.others[profile.RailType]; ok {
		return other, nil
	}
	if profile.RailType != file.Rails[0].RailType {
		return nil, relayer.ErrNotServed
	}
	rail, err := railconfig.Open(file.Rails[0], profile)
	if err == nil && w.wrap != nil {
		rail = w.wrap(rail)
	}
	return rail, err
}

// hesitant blocks before each send until it is released.
type hesitant struct {
	rails.Rail
	arrived chan payment.ID
	goOn    chan struct{}
}

func newHesitant() *hesitant {
	return &hesitant{arrived: make(chan payment.ID, 100), goOn: make(chan struct{})}
}

func (h *hesitant) around(rail rails.Rail) rails.Rail { h.Rail = rail; return h }

func (h *hesitant) Send(ctx context.Context, s rails.Send) rails.Result {
	h.arrived <- s.OutboxID
	select {
	case <-h.goOn:
	case <-ctx.Done():
	}
	return h.Rail.Send(ctx, s)
}

// panicky breaks the promises of a rail.
type panicky struct {
	rails.Rail
	inCheck, speak, lie bool
}

func (p panicky) Check(rails.Send) error {
	if p.inCheck {
		panic("check")
	}
	return nil
}

func (p panicky) Send(_ context.Context, s rails.Send) rails.Result {
	if p.speak {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.OnPhase(rails.PhaseFirstByte)
		}()
		<-done
	}
	if p.lie {
		return rails.Result{Result: payment.ResultNotSent, FirstByte: true}
	}
	panic("send")
}

// heir is a rail that remembers of which one it is the heir.
type heir struct {
	rails.Rail
	of chan<- rails.Rail
}

func (h heir) Inherit(earlier rails.Rail) { h.of <- earlier }

// TestNewProfileInherits tests that a rail which is opened for a new profile gets what the one before has seen.
func TestNewProfileInherits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	of := make(chan rails.Rail, 10)
	var opened atomic.Pointer[heir]
	open := func(profile rails.Profile) (rails.Rail, error) {
		rail, err := w.open(profile)
		one := &heir{rail, of}
		if opened.Load() == nil {
			opened.Store(one)
		}
		return one, err
	}
	config := oneLoop()
	config.RefreshEvery = 50 * time.Millisecond
	r, err := relayer.New(config, w.store, w.notifier(), open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	w.awaitStates(w.enqueue("by the first profile"), "DISPATCHING DISPATCHED")
	w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "NEVER", "concurrency": 3`))
	select {
	case earlier := <-of:
		if earlier != rails.Rail(opened.Load()) {
			t.Errorf("it inherits from %v", earlier)
		}
	case <-time.After(20 * time.Second):
		t.Error("the rail of the new profile inherits nothing")
	}
}
