package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// BenchmarkDrain drains ten thousand instructions of a thousand participants by one executor with
// 256 slots and no rail, on a rail that orders participants and on one that does not:
//
//	make test PKG=./ledger ARGS='-run NONE -bench Drain -benchtime 1x'
//
// With poisoned, the first instruction of one participant is parked, so that its others wait.
func BenchmarkDrain(b *testing.B) {
	none := outbox.Order{}
	strict := outbox.Order{Strict: true}
	for _, mode := range []struct {
		name     string
		profile  string
		order    outbox.Order
		poisoned bool
	}{
		{"none", celltest.BankProfile, none, false},
		{"strict", strictProfile, strict, false},
		{"strict poisoned", strictProfile, strict, true},
	} {
		b.Run(mode.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				cell := celltest.New(b)
				cell.ApplyProfile(celltest.Bank, mode.profile)
				lane := outbox.Lane{RailType: celltest.Bank, Free: 256, ProfileVersion: cell.ProfileInForce(celltest.Bank),
					RenderVersion: "render/1", Order: mode.order}
				fill(b, cell, 1000, 10)
				b.StartTimer()
				drain(b, cell, lane, mode.poisoned)
			}
		})
	}
}

// fill enqueues n instructions of each participant.
func fill(b *testing.B, cell *celltest.Cell, participants, n int) {
	b.Helper()
	in := openIngest(b, cell, 1)
	for round := range n {
		batch := make([]payment.Instruction, participants)
		for p := range batch {
			batch[p] = order(round*participants + p)
			batch[p].ParticipantID = fmt.Sprintf("p%d", p)
		}
		if _, err := in.EnqueueBatch(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

func drain(b *testing.B, cell *celltest.Cell, lane outbox.Lane, poisoned bool) {
	b.Helper()
	exec := openExecutor(b, cell)
	var outcomes []payment.Outcome
	left, began := 10000, time.Now()
	if poisoned {
		left -= 9
	}
	var slowest time.Duration
	for left > 0 || len(outcomes) > 0 {
		turn := outbox.Turn{Outcomes: outcomes, Ordered: []string{celltest.Bank}, Claim: request(lane)}
		if !lane.Order.Any() {
			turn.Ordered = nil
		}
		if len(outcomes) > 0 {
			turn.Finished = []payment.ID{outcomes[0].Claim.ClaimID}
		}
		at := time.Now()
		result, err := exec.Turn(b.Context(), turn)
		if err != nil {
			b.Fatal(err)
		}
		slowest = max(slowest, time.Since(at))
		outcomes = nil
		for _, claim := range result.Claims {
			left--
			if poisoned && claim.ParticipantID == "p0" {
				outcomes = append(outcomes, lost(never, claim))
				continue
			}
			outcomes = append(outcomes, done(claim))
		}
		if time.Since(began) > 5*time.Minute {
			b.Fatalf("%d are left", left)
		}
	}
	b.ReportMetric(float64(10000)/time.Since(began).Seconds(), "payments/s")
	b.ReportMetric(slowest.Seconds()*1000, "ms-slowest-turn")
}
