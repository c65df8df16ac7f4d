package rails

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Permit is the right to make one call to a rail: a slot, a token of the rate,
// and the breaker's leave. It is ended exactly once, by whichever of Release,
// Done and Settle comes first; later ones do nothing.
type Permit struct {
	guard *Guard
	// Under the guard's lock:
	answer func(error) // the breaker's; nil once it was told
	probe  *time.Timer // set on half-open probes
	ended  bool
}

// Release gives an unused permit back: slot, token, and the breaker forgets it.
// It is for claims that came back empty and for calls that never began.
func (p *Permit) Release() { p.end(errNotCounted, true) }

// Done ends a permit with what the call proved:
//
//   - Acceptances, refusals and answers to inquiries are successes: the rail is
//     alive and talks sense, whatever it says.
//   - UNKNOWN and UNAVAILABLE are failures.
//   - NOT_SENT is a failure: the rail could not be dialled. Where this side
//     stopped the call instead, use Settle, or Release.
//   - REFUSED_RAIL is a failure: every other call would hear the same.
//   - What the worker found before the first byte was no call: as Release.
func (p *Permit) Done(result payment.Result) {
	switch result {
	case payment.ResultAccepted, payment.ResultRefusedFinal, payment.ResultRefusedTransient, payment.ResultRefusedBusiness,
		payment.ResultExecuted, payment.ResultRefused, payment.ResultInProgress, payment.ResultNotFound:
		p.end(nil, false)
	case payment.ResultCheckFailed, payment.ResultTampered, payment.ResultWindowClosed, payment.ResultRenderChanged:
		p.Release()
	default:
		p.end(errRailFailed, false)
	}
}

// Settle ends a permit with a whole result. A call that this side stopped says
// nothing about the rail; its token comes back if nothing left.
func (p *Permit) Settle(result Result) {
	if result.OwnStop {
		p.end(errNotCounted, !result.FirstByte)
		return
	}
	p.Done(result.Result)
}

func (p *Permit) end(verdict error, giveBack bool) {
	g := p.guard
	defer g.tell()
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.probe != nil {
		p.probe.Stop()
	}
	p.inform(verdict)
	g.inFlight--
	if giveBack {
		g.bucket.giveBack()
	}
	select {
	case g.free <- struct{}{}:
	default:
	}
}

// overdue counts a half-open probe without an answer as failed, so that the
// breaker opens and probes again later: by itself it would wait for ever. The
// slot stays taken until the call is really over.
func (p *Permit) overdue() {
	g := p.guard
	defer g.tell()
	g.mu.Lock()
	defer g.mu.Unlock()
	p.inform(errRailFailed)
}

// inform tells the breaker, once.
func (p *Permit) inform(verdict error) {
	if p.answer != nil {
		p.answer(verdict)
		p.answer = nil
	}
}
