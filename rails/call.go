package rails

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/railhead-pay/railhead/payment"
)

// SendSafely calls Send of a rail. It keeps the promises of Rail even for an adapter that breaks
// them: a panic after PhaseFirstByte is UNKNOWN, a result that a send can't have is UNKNOWN, and
// texts are bounded. The adapter gets a payload of its own: what it writes there hides nothing from Redact.
func SendSafely(ctx context.Context, rail Rail, s Send) (result Result) {
	var left atomic.Bool
	s.OnPhase, s.Payload = noteFirstByte(&left, s.OnPhase), bytes.Clone(s.Payload)
	defer func() {
		if cause := recover(); cause != nil {
			result = panicked(cause, left.Load())
			return
		}
		result = enforceContract(result, payment.SendResults(), payment.ResultUnknown)
	}()
	if err := ctx.Err(); err != nil {
		return Result{Result: payment.ResultNotSent, Message: "stopped before the call: " + err.Error(), OwnStop: true}
	}
	return rail.Send(ctx, s)
}

// InquireSafely calls Inquire of a rail as SendSafely calls Send. An answer that proves nothing is
// UNAVAILABLE.
func InquireSafely(ctx context.Context, rail Inquirer, q Inquiry) (result Result) {
	var left atomic.Bool
	q.OnPhase, q.Payload = noteFirstByte(&left, q.OnPhase), bytes.Clone(q.Payload)
	defer func() {
		if cause := recover(); cause != nil {
			result = panicked(cause, left.Load())
			if result.FirstByte {
				result.Result = payment.ResultUnavailable
			}
			return
		}
		result = enforceContract(result, payment.InquiryResults(), payment.ResultUnavailable)
	}()
	if err := ctx.Err(); err != nil {
		return Result{Result: payment.ResultNotSent, Message: "stopped before the call: " + err.Error(), OwnStop: true}
	}
	return rail.Inquire(ctx, q)
}

func noteFirstByte(left *atomic.Bool, next func(Phase)) func(Phase) {
	return func(phase Phase) {
		if phase >= PhaseFirstByte {
			left.Store(true)
		}
		if next != nil {
			next(phase)
		}
	}
}

// panicked returns the result of a panic. It names the panic's type and not its value, which could
// contain anything, including a payload.
func panicked(cause any, left bool) Result {
	result := Result{Result: payment.ResultNotSent, FirstByte: left}
	if left {
		result.Result = payment.ResultUnknown
	}
	result.Message = fmt.Sprintf("the adapter panicked (%T)", cause)
	return result
}

// enforceContract replaces a result that such a call can't have, and bounds the texts. NOT_SENT
// after the first byte contradicts itself, and the byte decides.
func enforceContract(result Result, allowed []payment.Result, otherwise payment.Result) Result {
	switch {
	case !slices.Contains(allowed, result.Result):
		result.Message = fmt.Sprintf("the adapter answered %q, which is no result of such a call; %s", result.Result,
			result.Message)
		result.Result = otherwise
	case result.Result == payment.ResultNotSent && result.FirstByte:
		result.Message = "the adapter answered NOT_SENT after the first byte; " + result.Message
		result.Result = otherwise
	}
	result.Message = Sanitize(result.Message)
	result.Reference = CleanReference(result.Reference)
	if !plain(result.Code, MaxCode) {
		result.Code = ""
	}
	if !plain(result.CodeTable, maxCodeTable) {
		result.CodeTable = ""
	}
	result.Place, result.Loss = oneLine(result.Place), oneLine(result.Loss)
	return result
}
