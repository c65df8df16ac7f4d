package ledger_test

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// The rails of the tests, by what decides about them.
var (
	// coversKey keeps one outcome a key: an answer covers every send.
	coversKey = payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour),
		AnswerCoversKey: true}
	// sameKey de-duplicates, but an answer settles only its own send, and a refused key is taken again.
	sameKey = payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour),
		IDAfterRefusal: payment.IDSame}
	// stubborn is sent as often as any rail may be.
	stubborn = payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour), IDAfterRefusal: payment.IDSame,
		Retry: payment.RetryPolicy{MaxSends: payment.MaxSends},
	}
	// never does not de-duplicate and can't be asked.
	never = payment.Policy{}
	// asks can be asked, and its NOT_FOUND counts at almost any age.
	asks = payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour),
		Inquiry: payment.InquiryPolicy{
			Max: 2, Intervals: []payment.Duration{payment.Duration(time.Second)},
			NotFound: payment.NotFoundNotExecuted, NotFoundAge: payment.Duration(time.Microsecond),
			NotFoundUntil: payment.Duration(24 * time.Hour),
		},
	}
	// provisional accepts for now and is asked for the final word.
	provisional = payment.Policy{
		Acceptance: payment.AcceptanceProvisional,
		Inquiry: payment.InquiryPolicy{
			Max: 2, Intervals: []payment.Duration{payment.Duration(time.Second)}, NotFound: payment.NotFoundInconclusive,
		},
	}
)
