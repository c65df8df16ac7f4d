package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func contextThatEnds(t *testing.T) (context.Context, func()) { return context.WithCancel(t.Context()) }

// sends sends one item of each participant, for 4 s at most; what is called does not answer for its cell: it hangs.
func sends(
	t *testing.T, r *Router[*fake], participants []string, answers map[string]error,
) ([]outbox.ReceiptOrFault, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	return r.Batch(ctx, len(participants), func(n int) string { return participants[n] },
		func(ctx context.Context, cell *fake, items []int) ([]outbox.ReceiptOrFault, error) {
			err, answered := answers[cell.name]
			switch {
			case !answered:
				<-ctx.Done()
				return nil, fmt.Errorf("getting a connection: %w", ctx.Err())
			case err != nil:
				return nil, err
			}
			return slices.Repeat([]outbox.ReceiptOrFault{{Receipt: payment.Receipt{SequenceID: 7}}}, len(items)), nil
		})
}

// TestPartsAnswerForThemselves: what a cell has answered is told, whatever becomes of the parts of others: one whose
// commit is not known says so, and one that hangs, was migrated or refuses the call stores nothing.
func TestPartsAnswerForThemselves(t *testing.T) {
	t.Parallel()
	unknown := fmt.Errorf("%w: the connection broke", outbox.ErrCommitUnknown)
	other := fmt.Errorf("getting a connection: %w", outbox.ErrOtherSchema)
	second := &outbox.Fault{SQLState: outbox.StateSecondKeys}
	for what, c := range map[string]struct {
		answers map[string]error
		want    map[string]error // what each item's fault is; nil: it is stored
		whole   error
	}{
		"unknown": {map[string]error{"EAST": nil, "WEST": unknown},
			map[string]error{"p1": nil, "p2": outbox.ErrCommitUnknown, "p3": outbox.ErrOtherCell}, nil},
		"two hang": {map[string]error{"WEST": nil},
			map[string]error{"p1": outbox.ErrOtherCell, "p2": nil, "p3": outbox.ErrOtherCell}, nil},
		"migrated": {map[string]error{"EAST": nil, "WEST": other, "NORTH": nil},
			map[string]error{"p1": nil, "p2": outbox.ErrOtherCell, "p3": nil}, nil},
		"second keys": {map[string]error{"EAST": nil, "WEST": second, "NORTH": nil},
			map[string]error{"p1": nil, "p2": outbox.ErrSecondKeys, "p3": nil}, nil},
		"one refuses, one is unknown":  {map[string]error{"EAST": unknown, "WEST": second}, nil, outbox.ErrCommitUnknown},
		"one migrated, one is unknown": {map[string]error{"EAST": unknown, "WEST": other}, nil, outbox.ErrCommitUnknown},
		"all hang, one is unknown":     {map[string]error{"EAST": unknown}, nil, outbox.ErrCommitUnknown},
		"all refuse":                   {map[string]error{"EAST": second, "WEST": second, "NORTH": second}, nil, outbox.ErrSecondKeys},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := halves()
			r := routerOf(&fake{name: "EAST", own: m}, &fake{name: "WEST", own: m}, &fake{name: "NORTH", own: m})
			time.Sleep(time.Minute)
			for _, order := range [][]string{{"p1", "p2", "p3"}, {"p3", "p2", "p1"}} {
				results, err := sends(t, r, order, c.answers)
				if c.whole != nil {
					if !errors.Is(err, c.whole) {
						t.Errorf("%s: %v", what, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				for n, p := range order {
					fault, want := results[n].Fault, c.want[p]
					if (fault == nil) != (want == nil) || want != nil && !errors.Is(fault, want) ||
						(fault == nil) != (results[n].Receipt.SequenceID == 7) {
						t.Errorf("%s: %s: %+v", what, p, results[n])
					}
				}
			}
		})
	}
}

// TestBatchWithoutAnyMap: a batch asks the cells once for a map, not for each of its items.
func TestBatchWithoutAnyMap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		east, west := &fake{name: "EAST", hung: true}, &fake{name: "WEST", hung: true}
		r := routerOf(east, west)
		time.Sleep(time.Minute)
		var batches sync.WaitGroup
		for range 5 {
			batches.Go(func() {
				began := time.Now()
				results, err := r.Batch(t.Context(), 100, func(n int) string { return fmt.Sprint("p", n) },
					func(context.Context, *fake, []int) ([]outbox.ReceiptOrFault, error) { panic("called") })
				if took := time.Since(began); err != nil || results[99].Fault == nil || took > 2*readWithin {
					t.Errorf("it took %s: %v", took, err)
				}
			})
		}
		batches.Wait()
		if n := east.reads.Load() + west.reads.Load(); n != 2 {
			t.Errorf("the cells were asked %d times", n)
		}
	})
}
