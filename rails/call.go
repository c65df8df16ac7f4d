package rails

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/railhead-pay/railhead/payment"
)

// SendSafely is how a rail is called. It keeps the promises of Rail even for an
// adapter that breaks them: a panic is UNKNOWN once the first byte was
// announced, a result that no send may have is UNKNOWN, and texts are bounded.
func SendSafely(ctx context.Context, rail Rail, s Send) (result Result) {
	var left atomic.Bool
	s.OnPhase = noteFirstByte(&left, s.OnPhase)
	defer func() {
		if cause := recover(); cause != nil {
			result = panicked(cause, left.Load())
			return
		}
		result = held(result, payment.SendResults(), payment.ResultUnknown)
	}()
	if err := ctx.Err(); err != nil {
		return Result{Result: payment.ResultNotSent, Message: "stopped before the call: " + err.Error(), OwnStop: true}
	}
	return rail.Send(ctx, s)
}

// InquireSafely is how a rail is asked. Whatever proves nothing is UNAVAILABLE.
func InquireSafely(ctx context.Context, rail Inquirer, q Inquiry) (result Result) {
	var left atomic.Bool
	q.OnPhase = noteFirstByte(&left, q.OnPhase)
	defer func() {
		if cause := recover(); cause != nil {
			result = panicked(cause, left.Load())
			if result.FirstByte {
				result.Result = payment.ResultUnavailable
			}
			return
		}
		result = held(result, payment.InquiryResults(), payment.ResultUnavailable)
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

// panicked tells the kind of the panic and not its value, which could hold
// anything, a payload included.
func panicked(cause any, left bool) Result {
	result := Result{Result: payment.ResultNotSent, FirstByte: left}
	if left {
		result.Result = payment.ResultUnknown
	}
	result.Message = fmt.Sprintf("the adapter panicked (%T)", cause)
	return result
}

// held refuses what no such call may return: NOT_SENT with a byte on the wire
// contradicts itself, and the bytes win.
func held(result Result, allowed []payment.Result, otherwise payment.Result) Result {
	switch {
	case !slices.Contains(allowed, result.Result):
		result.Message = fmt.Sprintf("the adapter answered %q, which is no result of such a call; %s", result.Result, result.Message)
		result.Result = otherwise
	case result.Result == payment.ResultNotSent && result.FirstByte:
		result.Message = "the adapter answered NOT_SENT after the first byte; " + result.Message
		result.Result = otherwise
	}
	result.Message = CleanMessage(result.Message)
	result.Reference = CleanReference(result.Reference)
	if !plain(result.Code, MaxCode) {
		result.Code = ""
	}
	return result
}
