package relayer_test

import (
	"cmp"
	"context"
	"os"

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
