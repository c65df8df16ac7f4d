// Package codes defines what the answer codes of rails mean for money: explicit tables, one
// readable file each, and the pure rule that turns a code into a result.
//
// A code is never matched by substring or by guess. A code that no table lists proves nothing:
// UNKNOWN for a send, UNAVAILABLE for an inquiry.
package codes

import "github.com/railhead-pay/railhead/payment"

// Class is the meaning of a code, whatever it answers.
type Class string

// The classes. The single letters are those of the retry tables that banks use.
const (
	Executed    Class = "OK" // the rail took responsibility: executed, as far as the rail is concerned
	InProgress  Class = "P"  // accepted; the final answer is to come
	Terminal    Class = "T"  // not executed and never will be
	FirstOnly   Class = "T1" // terminal on the first send; on a later one it may be about the repetition
	Refused     Class = "R"  // not executed, may be tried again
	Business    Class = "B"  // not executed for lack of funds, a limit or the hour
	Later       Class = "L"  // not processed because the rail is busy, and not stored
	Duplicate   Class = "D"  // a repetition of our own key: proves nothing about the earlier send
	HoldRail    Class = "H"  // our credentials, route or format are not accepted
	NotReceived Class = "N"  // the rail has no such payment
	Unclear     Class = "U"  // listed, and known to prove nothing
)

// Classes lists every class.
func Classes() []Class {
	return []Class{
		Executed, InProgress, Terminal, FirstOnly, Refused,
		Business, Later, Duplicate, HoldRail, NotReceived, Unclear,
	}
}

// Context describes what a code answers.
type Context struct {
	// Inquiry is set for the answer to an inquiry; otherwise it is the answer to a send.
	Inquiry bool
	// SendNo counts the sends that may have reached the rail, from 1, including the one answered. A
	// number below 1 counts as a later send, which is the careful reading.
	SendNo int
	// Acceptance is that of the rail's profile. A FINAL rail may not answer "in progress" to a
	// send, because the answer would end the instruction. With BY_ANSWER, "executed" differs from
	// "accepted".
	Acceptance payment.Acceptance
}

// Result returns what a code of this class proves in this context. An unknown class proves nothing.
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
		// No other payment has this rail key, and what counts as the first send may be a
		// repetition: of a request that a proxy sent twice, or of a forgotten send.
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

// MaySaySeen reports whether an answer of this class to send number sendNo may mean that the rail
// already has the key. A duplicate always does, since no other sender uses the key.
func (c Class) MaySaySeen(sendNo int) bool { return c == Duplicate || c == FirstOnly && sendNo != 1 }

// inquiryResult takes a code as evidence only if it can't be about the inquiry itself: "try again
// later", "duplicate", "your credentials are wrong" and "this message is malformed or not allowed"
// (T1) prove nothing about the payment.
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
