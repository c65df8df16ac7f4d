package rails

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Permit is the right to make one call to a rail: a slot, a token of the rate, and the breaker's
// permission. The first call of Release, Done or one of the End methods ends it; later ones do
// nothing.
type Permit struct {
	guard *Guard
	begun time.Time // when it was reserved
	// Under the guard's lock:
	answer func(error) // reports to the breaker; nil once it was called
	probe  *time.Timer // set on half-open probes
	ended  bool
	asked  bool // its call was an inquiry
}

// Release returns an unused permit: slot and token are free again, and the breaker does not count
// it. It is for claims that found nothing and for calls that never began.
func (p *Permit) Release() { p.finish(errNotCounted, true, "") }

// Done ends a permit with what the call proved:
//
//   - Acceptances, refusals and answers to inquiries are successes: the rail is alive and answers sensibly.
//   - REFUSED_LATER is a success too, and slows the lane down.
//   - UNKNOWN and UNAVAILABLE are failures.
//   - NOT_SENT is a failure: the rail could not be dialled. If this side stopped the call instead, use End
//     or Release.
//   - REFUSED_RAIL is a failure: every other call may get the same answer. EndRefused is for a refusal
//     that is about its instruction.
//   - Results from before the first byte come without a call: they count as Release.
func (p *Permit) Done(result payment.Result) {
	switch result {
	case payment.ResultAccepted, payment.ResultRefusedFinal, payment.ResultRefusedTransient, payment.ResultRefusedBusiness,
		payment.ResultRefusedLater, payment.ResultExecuted, payment.ResultRefused, payment.ResultInProgress,
		payment.ResultNotFound:
		p.finish(nil, false, result)
	case payment.ResultCheckFailed, payment.ResultTampered, payment.ResultWindowClosed, payment.ResultRenderChanged:
		p.Release()
	default:
		p.finish(errRailFailed, false, result)
	}
}

// EndRefused ends a permit whose call was refused in the way a rail refuses all calls, although it
// accepts those of others. It proves nothing about the rail's health.
func (p *Permit) EndRefused() { p.finish(errNotCounted, false, payment.ResultRefusedRail) }

// End ends a permit with a complete result. A call that this side stopped proves nothing about the
// rail; its token is returned if no byte left.
func (p *Permit) End(result Result) {
	if result.OwnStop {
		p.finish(errNotCounted, !result.FirstByte, "")
		return
	}
	p.Done(result.Result)
}

// EndInquiry ends the permit of an inquiry. An answered inquiry does not prove that the rail
// accepts sends, nor does an answered send prove that it answers inquiries.
func (p *Permit) EndInquiry(result Result) {
	p.guard.mu.Lock()
	p.asked = true
	p.guard.mu.Unlock()
	p.End(result)
}

// finish reports the verdict to the breaker, and the rail's answer to the lane's pace; an empty
// result means no answer that counts.
func (p *Permit) finish(verdict error, giveBack bool, result payment.Result) {
	g := p.guard
	defer g.report()
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
		g.observe(result, verdict == nil, p)
	}
}

// observe counts an answer. The caller holds mu.
func (g *Guard) observe(result payment.Result, success bool, p *Permit) {
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
			g.inquiries.answered(p.begun)
		} else {
			g.sends.answered(p.begun)
		}
	}
}

// overdue counts an unanswered half-open probe as failed, so that the breaker opens and probes
// again later; without it the breaker would wait without a bound. The slot stays taken until the
// call ends.
func (p *Permit) overdue() {
	g := p.guard
	defer g.report()
	g.mu.Lock()
	defer g.mu.Unlock()
	p.inform(errRailFailed)
}

// inform reports to the breaker, once.
func (p *Permit) inform(verdict error) {
	if p.answer != nil {
		p.answer(verdict)
		p.answer = nil
	}
}
