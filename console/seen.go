package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// changed is the answer to an act on a payment that is no longer as the page showed it.
var changed = problem{http.StatusConflict, "The payment has changed since the page was made",
	"Nothing was done. Look again at the payment's page, and act by what it shows now."}

// seenText is what a page shows of a payment, as the field of a form of an act: such as
// 7.1795741200000000.1795741200000000.FAILED.
func seenText(lastAttempt int, letter *reader.DeadLetter) string {
	text := strconv.Itoa(lastAttempt)
	if letter == nil {
		return text
	}
	for _, at := range []time.Time{letter.OpenedAt, letter.UpdatedAt} {
		text += "." + strconv.FormatInt(at.UnixMicro(), 10)
	}
	return text + "." + string(letter.Reason)
}

// seenOf reads what the form of an act says that the page showed of a payment.
func seenOf(id payment.ID, text string) (seen operator.Seen, ok bool) {
	parts := strings.SplitN(text, ".", 4)
	seen.OutboxID = id
	var err error
	if seen.LastAttempt, err = strconv.Atoi(parts[0]); err != nil || seen.LastAttempt < operator.AnyAttempt {
		return seen, false
	}
	if len(parts) == 1 {
		return seen, true
	}
	if len(parts) != 4 {
		return seen, false
	}
	for n, into := range []*time.Time{&seen.OpenedAt, &seen.UpdatedAt} {
		micros, err := strconv.ParseInt(parts[n+1], 10, 64)
		if err != nil {
			return seen, false
		}
		*into = time.UnixMicro(micros)
	}
	seen.Reason = payment.DeadReason(parts[3])
	return seen, true
}

// seenName is the field of what the list of dead letters shows of one of them.
func seenName(id payment.ID) string { return "seen-" + id.String() }

// seenLast is what the page of a payment shows of it.
func seenLast(line reader.Timeline) string {
	last := 0
	if n := len(line.Attempts); n > 0 {
		last = line.Attempts[n-1].AttemptNo
	}
	return seenText(last, line.DeadLetter)
}
