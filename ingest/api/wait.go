package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// waitOf returns how long the caller wants to wait for the outcome, by the header Prefer (RFC
// 7240); 0: not at all. Other preferences are ignored, as the RFC requires.
func waitOf(prefer []string, most time.Duration) time.Duration {
	for _, header := range prefer {
		for each := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(each), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			seconds, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || seconds <= 0 {
				return 0
			}
			return min(time.Duration(min(seconds, 3600))*time.Second, most)
		}
	}
	return 0
}

// await waits until an instruction rests, the time is over or the process stops. With an error of
// the store it returns the last known state.
func (a *API) await(
	ctx context.Context, who outbox.Bearer, id payment.ID, patience time.Duration,
) (outbox.Tracked, error) {
	a.watch.Waiting(1)
	defer a.watch.Waiting(-1)
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(a.draining, cancel)()
	last, err := a.store.Await(waiting, who, id)
	if err != nil && waiting.Err() != nil && last.OutboxID == id {
		return last, nil // the time is over
	}
	return last, err
}
