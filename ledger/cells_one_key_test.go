package ledger_test

import (
	"errors"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestOneKeyInTwoCells: two participants of two cells have enqueued by one key. A client of both cells, asked by the
// key alone, says of neither payment that it is the one.
func TestOneKeyInTwoCells(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	r := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	lower, upper, alone := order(1), order(1), order(2)
	lower.ParticipantID, alone.ParticipantID = nameInLower("lower"), nameInLower("lower")
	for n := 0; !isWests(upper.ParticipantID); n++ {
		upper.ParticipantID = "upper-" + string(rune('a'+n))
	}
	for _, in := range []payment.Instruction{lower, upper, alone} {
		receipt, err := r.Enqueue(t.Context(), in)
		if err != nil || receipt.Replayed {
			t.Fatal(receipt, err)
		}
	}
	for range 20 {
		_, status := r.Status(t.Context(), keyOf(lower))
		_, statuses := r.Statuses(t.Context(), []ingest.Key{keyOf(alone), keyOf(upper)})
		_, await := r.Await(t.Context(), keyOf(upper))
		for what, err := range map[string]error{"status": status, "statuses": statuses, "await": await} {
			if !errors.Is(err, outbox.ErrSeveralPayments) {
				t.Fatalf("%s: %v, want %v", what, err, outbox.ErrSeveralPayments)
			}
		}
	}
	if _, err := r.Statuses(t.Context(), []ingest.Key{keyOf(alone)}); err != nil {
		t.Error(err)
	}
}
