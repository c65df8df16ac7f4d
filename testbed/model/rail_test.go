package model

import "github.com/railhead-pay/railhead/payment"

// rail is what the rail knows about one instruction: the truth. The rail is honest; the network is
// not reliable.
type rail struct {
	key         string
	dedupes     bool
	provisional bool
	either      bool // it executes at once, or takes for now, and says which
	named       bool // it has a reference for what it refuses, too

	executed int
	refused  bool // for good, and remembered under the key
	notNow   bool // refused one for now, which the answer to an inquiry may report, too
	taken    bool // provisionally; its final word is to come
	flying   int  // sends that are on their way still
	reports  []report
}

// word is what the rail decides about a payment that it sees for the first time.
type word string

const (
	wordYes   word = "yes"
	wordNo    word = "no"
	wordLater word = "not now"
	wordPoor  word = "no funds"
	wordTaken word = "taken" // of a rail that does either
)

// arrive takes a send that reaches the rail, and returns the rail's answer.
func (r *rail) arrive(decides word) payment.Result {
	known := r.dedupes && (r.executed > 0 || r.refused || r.taken)
	switch {
	case known && r.refused && !r.provisional:
		return payment.ResultRefusedFinal
	case known && r.either && !r.taken:
		return payment.ResultExecuted
	case known:
		return payment.ResultAccepted // as it said the first time
	case decides == wordLater:
		r.notNow = true
		return payment.ResultRefusedTransient
	case decides == wordPoor && !r.provisional:
		r.notNow = true
		return payment.ResultRefusedBusiness
	case decides == wordNo && !r.provisional:
		r.refused = true
		return payment.ResultRefusedFinal
	case r.provisional, r.either && decides == wordTaken:
		r.taken = true
	case r.either:
		r.executed++
		return payment.ResultExecuted
	default:
		r.executed++
	}
	return payment.ResultAccepted
}

// settle makes the final decision about a provisional payment.
func (r *rail) settle(decides word) {
	if r.taken = false; decides == wordNo {
		r.refused = true
		return
	}
	r.executed++
}

// asked returns the answer to an inquiry.
func (r *rail) asked() payment.Result {
	switch {
	case r.executed > 0:
		return payment.ResultExecuted
	case r.taken:
		return payment.ResultInProgress
	case r.refused || r.notNow:
		return payment.ResultRefused
	default:
		return payment.ResultNotFound
	}
}

// reference returns the rail's own name for what it executed, took or, where it names refusals,
// refused.
func (r *rail) reference(result payment.Result) string {
	switch result {
	case payment.ResultAccepted, payment.ResultExecuted:
		return "reference-of-" + r.key
	case payment.ResultRefused, payment.ResultRefusedFinal, payment.ResultRefusedTransient, payment.ResultRefusedBusiness:
		if r.named {
			return "reference-of-" + r.key
		}
	}
	return ""
}

func refusalForNow(r payment.Result) bool {
	return r == payment.ResultRefusedTransient || r == payment.ResultRefusedBusiness
}

// noSend reports whether an answer means that the call never reached the rail's decision.
func noSend(r payment.Result) bool {
	return r == payment.ResultNotSent || r == payment.ResultRefusedLater || r == payment.ResultRefusedRail ||
		r == payment.ResultWindowClosed
}

func isRefusal(r payment.Result) bool {
	return r == payment.ResultRefused || r == payment.ResultRefusedFinal
}
