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
	begun time.Time // when it was reserved
	// Under the guard's lock:
	answer func(error) // the breaker's; nil once it was told
	probe  *time.Timer // set on half-open probes
	ended  bool
	asked  bool // its call was an inquiry
}

// Release gives an unused permit back: slot, token, and the breaker forgets it.
// It is for claims that came back empty and for calls that never began.
func (p *Permit) Release() { p.end(errNotCounted, true, "") }

// Done ends a permit with what the call proved:
//
//   - Acceptances, refusals and answers to inquiries are successes: the rail is
//     alive and talks sense, whatever it says.
//   - REFUSED_LATER is one too, and slows the lane down.
//   - UNKNOWN and UNAVAILABLE are failures.
//   - NOT_SENT is a failure: the rail could not be dialled. Where this side
//     stopped the call instead, use Settle, or Release.
//   - REFUSED_RAIL is a failure: every other call may hear the same. SettleRefused
//     is for one that is about its instruction.
//   - What the worker found before the first byte was no call: as Release.
func (p *Permit) Done(result payment.Result) {
	switch result {
	case payment.ResultAccepted, payment.ResultRefusedFinal, payment.ResultRefusedTransient, payment.ResultRefusedBusiness,
		payment.ResultRefusedLater, payment.ResultExecuted, payment.ResultRefused, payment.ResultInProgress, payment.ResultNotFound:
		p.end(nil, false, result)
	case payment.ResultCheckFailed, payment.ResultTampered, payment.ResultWindowClosed, payment.ResultRenderChanged:
		p.Release()
	default:
		p.end(errRailFailed, false, result)
	}
}

// SettleRefused ends a permit whose call was refused as the rail would refuse any,
// although it takes the calls of others: it says nothing about the rail's health.
func (p *Permit) SettleRefused() { p.end(errNotCounted, false, payment.ResultRefusedRail) }

// Settle ends a permit with a whole result. A call that this side stopped says
// nothing about the rail; its token comes back if nothing left.
func (p *Permit) Settle(result Result) {
	if result.OwnStop {
		p.end(errNotCounted, !result.FirstByte, "")
		return
	}
	p.Done(result.Result)
}

// SettleInquiry is Settle of an inquiry: that it was answered does not show that the rail
// takes sends, nor the answer to a send that it takes inquiries.
func (p *Permit) SettleInquiry(result Result) {
	p.guard.mu.Lock()
	p.asked = true
	p.guard.mu.Unlock()
	p.Settle(result)
}

// end tells the breaker the verdict, and the lane's pace what the rail answered;
// empty: it answered nothing that counts.
func (p *Permit) end(verdict error, giveBack bool, result payment.Result) {
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
		g.pace.giveBack()
	}
	if result != "" {
		g.heard(result, verdict == nil, p)
	}
	select {
	case g.free <- struct{}{}:
	default:
	}
}

// heard is called with mu held.
func (g *Guard) heard(result payment.Result, success bool, p *Permit) {
	now := time.Now()
	if result != payment.ResultNotSent {
		g.pace.answered(now)
	}
	switch {
	case result == payment.ResultRefusedLater:
		g.pace.busy(p.begun, now)
	case success:
		g.pace.notBusy(now)
		if p.asked {
			g.inquiries.answered(now)
		} else {
			g.sends.answered(now)
		}
	}
}

// overdue counts a half-open probe without an answer as failed, so that the
// breaker opens and probes again later: by itself it would wait without a bound.
// The slot stays taken until the call is really over.
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
