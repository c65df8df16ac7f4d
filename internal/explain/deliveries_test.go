package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestDeliveries: each event that waits is named, with its next try, and stands in the history at its last one.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	waits := []reader.WaitingEvent{
		{AttemptNo: 2, Type: "payment.accepted", Tries: 1, FailedAt: at, NextAt: at.Add(time.Minute), Status: "HTTP_500\nx"},
		{AttemptNo: 4, Type: "payment.dispatched", NextAt: at},
		{AttemptNo: 6, Type: "payment.conflict", Tries: 10, FailedAt: at.Add(time.Hour), Status: "HTTP_410"},
	}
	const begins = "was not for this endpoint, or is from before the endpoint was to begin"
	for want, d := range map[string]reader.Delivery{
		"there is no event of it yet":                              {Endpoint: "shop"},
		"the endpoint has not come to its events yet, up to row 6": {Endpoint: "shop", LastNo: 6},
		"the endpoint has come to row 2 of 6: each event until then was accepted or discarded, " + begins: {
			Endpoint: "shop", LastNo: 6, PassedNo: 2},
		"the endpoint has come to row 6, the last one: each event until then was accepted or discarded, " + begins +
			"; the endpoint is paused since 2026-11-27T03:00:00.000Z": {Endpoint: "shop", LastNo: 6, PassedNo: 6,
			PausedAt: at},
		"the endpoint has come to row 6, the last one: each event until then, except those named here, was accepted or " +
			"discarded, " + begins + "\n" +
			"payment.accepted of row 2 was not accepted in one try, last at 2026-11-27T03:00:00.000Z: HTTP_500 x; the next " +
			"try is at 2026-11-27T03:01:00.000Z\n" +
			"payment.dispatched of row 4 waits; no try of it has failed; it comes after an earlier one of this payment\n" +
			"payment.conflict of row 6 was not accepted in 10 tries, last at 2026-11-27T04:00:00.000Z: HTTP_410; it comes " +
			"after an earlier one of this payment; it is not tried again until an operator asks: railhead events redeliver shop": {Endpoint: "shop", LastNo: 6, PassedNo: 6,
			Waiting: waits},
	} {
		var got []string
		for _, line := range DeliveryLines(d) {
			got = append(got, line.Text)
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("got\n%s\nwant\n%s", text, want)
		}
	}
	var order []string
	events := []Event{{At: at.Add(-time.Second), What: "a"}, {At: at.Add(time.Second), What: "b"}}
	for _, event := range WithDeliveries(events, []reader.Delivery{{Endpoint: "shop", Waiting: waits}}) {
		order = append(order, event.What)
	}
	if text := strings.Join(order, "; "); text != "a; the delivery of payment.accepted of row 2 failed; b; "+
		"the delivery of payment.conflict of row 6 failed" {
		t.Errorf("the history is %s", text)
	}
}
