// Package codes holds what rails' answer codes mean for money: explicit tables,
// one readable file each, and the pure rule that turns a code into a result.
//
// A code is never matched by substring or by guess. One that no table lists
// proves nothing: UNKNOWN for a send, UNAVAILABLE for an inquiry.
package codes

import "github.com/railhead-pay/railhead/payment"

// Class is what a code means, whatever it was the answer to.
type Class string

// The classes. Those of a single letter are the ones bankers' retry tables use.
const (
	Executed    Class = "OK" // the rail took responsibility: executed, as far as it is concerned
	InProgress  Class = "P"  // taken, the final word is to come
	Terminal    Class = "T"  // not executed and never will be
	FirstOnly   Class = "T1" // terminal on the first send; on a later one it may speak of the repetition
	Refused     Class = "R"  // not executed, may be tried again
	Business    Class = "B"  // not executed for lack of funds, a limit or the hour
	Later       Class = "L"  // not looked at, because the rail is busy, and nothing of it is kept
	Duplicate   Class = "D"  // seen before, so by our own key: says nothing of the send that was seen
	HoldRail    Class = "H"  // our credentials, route or format are not accepted
	NotReceived Class = "N"  // the rail knows of no such payment
	Unclear     Class = "U"  // listed, and known to prove nothing
)

// Classes lists every class.
func Classes() []Class {
	return []Class{
		Executed, InProgress, Terminal, FirstOnly, Refused,
		Business, Later, Duplicate, HoldRail, NotReceived, Unclear,
	}
}

// Context is what a code was the answer to.
type Context struct {
	// Inquiry is set for the answer to an inquiry, else it is to a send.
	Inquiry bool
	// SendNo counts the sends that may have reached the rail, from 1, the one
	// answered included. Anything below 1 is a later send: the careful reading.
	SendNo int
	// Acceptance is the rail's. A FINAL rail may not answer "in progress" to a send:
	// the word would end the instruction. Where acceptance is BY_ANSWER, "executed" is
	// told from it.
	Acceptance payment.Acceptance
}

// Result is what a code of this class proves in this context. A class that it
// does not know proves nothing.
func (c Class) Result(ctx Context) payment.Result {
	if ctx.Inquiry {
		return c.inquiryResult()
	}
	switch c {
	case Executed:
		if ctx.Acceptance == payment.AcceptanceByAnswer {
			return payment.ResultExecuted
		}
		return payment.ResultAccepted
	case InProgress:
		if ctx.Acceptance == payment.AcceptanceProvisional || ctx.Acceptance == payment.AcceptanceByAnswer {
			return payment.ResultAccepted
		}
		return payment.ResultUnknown
	case Terminal:
		return payment.ResultRefusedFinal
	case FirstOnly:
		if ctx.SendNo == 1 {
			return payment.ResultRefusedFinal
		}
		return payment.ResultUnknown
	case Duplicate:
		// No other payment has this rail key, and what counts as the first send may be
		// a repetition: of a request that a proxy sent twice, or of a forgotten send.
		return payment.ResultUnknown
	case Refused:
		return payment.ResultRefusedTransient
	case Business:
		return payment.ResultRefusedBusiness
	case Later:
		return payment.ResultRefusedLater
	case HoldRail:
		return payment.ResultRefusedRail
	default:
		return payment.ResultUnknown
	}
}

// MaySaySeen reports whether an answer of this class to send number sendNo may mean
// that the rail knows the key already. A duplicate always does: the key is ours alone.
func (c Class) MaySaySeen(sendNo int) bool { return c == Duplicate || c == FirstOnly && sendNo != 1 }

// inquiryResult takes a code as evidence only where it can't be about the
// inquiry itself: "try again later", "duplicate", "your credentials are
// wrong" and "this message is malformed or not allowed" (T1) say nothing of the
// payment that was asked for.
func (c Class) inquiryResult() payment.Result {
	switch c {
	case Executed:
		return payment.ResultExecuted
	case InProgress:
		return payment.ResultInProgress
	case Terminal, Business: // no inquiry is refused for lack of funds
		return payment.ResultRefused
	case NotReceived:
		return payment.ResultNotFound
	default:
		return payment.ResultUnavailable
	}
}
