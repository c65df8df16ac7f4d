package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// changed is the answer to an act on a payment that is no longer as the page showed it.
var changed = problem{http.StatusConflict, "The payment has changed since the page was made",
	"Nothing was done. Look again at the payment's page, and act by what it shows now."}

// other is the answer to an act on a rail, a participant or an endpoint that is no longer as the page showed it.
var other = problem{http.StatusConflict, "It is no longer as the page showed it",
	"Nothing was done. Another pause may have begun since, or another operator has asked for it as well, or other " +
		"events were given up, or the page is of an older version of the console. Look again at its page, and act by what " +
		"it shows now."}

// shownPause is what a page shows of a pause, as the field of a form: when it began, when it ends and the mark of its
// reason, such as 1795741200000000.0.9f86d081884c7d65.
func shownPause(pause *reader.Pause) string {
	shown := operator.ShownOf(pause)
	return microsOf(shown.At) + "." + microsOf(shown.Until) + "." + shown.Mark
}

// pauseShown reads what the form of an act says that the page showed of a pause.
func pauseShown(text string) (operator.ShownPause, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return operator.ShownPause{}, operator.ErrOther
	}
	begun, err := timeOf(parts[0])
	if err != nil {
		return operator.ShownPause{}, operator.ErrOther
	}
	ends, err := timeOf(parts[1])
	if err != nil {
		return operator.ShownPause{}, operator.ErrOther
	}
	return operator.ShownPause{At: begun, Until: ends, Mark: parts[2]}, nil
}

// shownEndpoint is what the page shows of an endpoint: since when it is paused, and which events were given up.
func shownEndpoint(one outbox.ListedEndpoint) string {
	return fmt.Sprintf("%s.%d.%d", microsOf(one.PausedAt), one.GivenUp, one.GivenUpMark)
}

// endpointShown reads what the form of an act says that the page showed of an endpoint.
func endpointShown(text string) (shown operator.ShownEndpoint, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return shown, operator.ErrOther
	}
	var faults [3]error
	shown.PausedAt, faults[0] = timeOf(parts[0])
	shown.GivenUp, faults[1] = strconv.Atoi(parts[1])
	shown.Mark, faults[2] = strconv.ParseInt(parts[2], 10, 64)
	if errors.Join(faults[:]...) != nil {
		return shown, operator.ErrOther
	}
	return shown, nil
}

// microsOf is a moment as a field of a form; the database keeps microseconds.
func microsOf(at time.Time) string {
	if at.IsZero() {
		return "0"
	}
	return strconv.FormatInt(at.UnixMicro(), 10)
}

func timeOf(micros string) (time.Time, error) {
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || n == 0 {
		return time.Time{}, err
	}
	return time.UnixMicro(n), nil
}

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

// tickedName is the name of the ticks of a form of the list of dead letters. No two forms have one in common: a browser
// that goes back ticks again by name and place, and another payment may be at that place by now.
func tickedName(form string) string { return "id-" + form }

// comparedName is the name of the tick that the suspension since a time was compared, which is none for another one.
func comparedName(since string) string { return "compared-" + since }

// seenLast is what the page of a payment shows of it.
func seenLast(line reader.Timeline) string {
	last := 0
	if n := len(line.Attempts); n > 0 {
		last = line.Attempts[n-1].AttemptNo
	}
	return seenText(last, line.DeadLetter)
}
