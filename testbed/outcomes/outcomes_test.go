package outcomes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// TestEveryCell plays the whole table at once: 24 shapes, 5 troubles, 8 results,
// and one more for provisional rails.
func TestEveryCell(t *testing.T) {
	t.Parallel()
	all := cells()
	if want := 24*5*8 + 12*5; len(all) != want {
		t.Fatalf("%d cells, want %d", len(all), want)
	}
	if resent := playTable(t, all); resent < 50 {
		t.Errorf("only %d instructions were sent again: this compares nothing", resent)
	}
}

// TestEveryWordForDuplicate plays the cells in which a bank that can't be asked
// sees a key again, for each of its words for "duplicate": such a word proves
// nothing about the send before it.
func TestEveryWordForDuplicate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: make test LONG=1 plays it")
	}
	for _, replay := range railsim.Replays() {
		if replay == railsim.ReplayStored {
			continue // TestEveryCell
		}
		t.Run(string(replay), func(t *testing.T) {
			t.Parallel()
			var all []cell
			for _, c := range cells() {
				c.replay = replay
				if c.replayed() {
					all = append(all, c)
				}
			}
			if resent := playTable(t, all); resent < 10 {
				t.Errorf("only %d instructions were sent again: this compares nothing", resent)
			}
		})
	}
}

// playTable plays cells to their ends, and returns how many instructions were sent again.
func playTable(t *testing.T, all []cell) (resent int) {
	t.Helper()
	s := newStage(t, all, speed)
	s.faults(all)
	ids := s.play(all)
	s.awaitEnds(all, ids)
	s.compareBanks(all)
	s.compareLetters(all)
	return s.sameBytes()
}

func cellRules(all []cell, shape simrail.Shape) []railsim.Fault {
	var rules []railsim.Fault
	for _, c := range all {
		if c.shape == shape {
			rules = append(rules, c.faults()...)
		}
	}
	return rules
}

// play first enqueues the instructions that kill their worker and lets a worker be killed by them;
// then it plays the rest, with a relayer, two reapers and an operator who resumes paused rails.
func (s *stage) play(all []cell) map[string]payment.ID {
	s.t.Helper()
	var deadly, others []cell
	for _, c := range all {
		if c.killed() {
			deadly = append(deadly, c)
		} else {
			others = append(others, c)
		}
	}
	ids := s.enqueue(deadly)
	victim := &doomed{Store: s.store}
	hasty := timeBudget
	hasty.Drain, hasty.RecordWithin = 10*time.Millisecond, 10*time.Millisecond
	s.cell.SetTimeBudget(hasty)
	stop := s.relay(victim)
	for range deadly {
		select {
		case <-s.meddler.killed:
		case <-time.After(30 * time.Second):
			s.t.Fatal("not every deadly send was begun")
		}
	}
	victim.dead.Store(true)
	stop()
	s.cell.SetTimeBudget(timeBudget)
	maps.Copy(ids, s.enqueue(others))
	s.relay(patient{s.store, reportedFirst(all)})
	s.reap()
	s.reap()
	s.resume()
	return ids
}

// awaitEnds waits until every cell has the end that the table gives.
func (s *stage) awaitEnds(all []cell, ids map[string]payment.ID) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 90*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		states, err := s.reader.StatesByPrefix(s.t.Context(), "")
		s.must(err)
		var wrong []string
		for _, c := range all {
			if got, want := states[ids[c.name()]], string(c.want().state); got != want {
				wrong = append(wrong, fmt.Sprintf("%s: %s, want %s: %s", c.name(), got, want, s.rows(ids[c.name()])))
			}
		}
		if len(wrong) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%d of %d cells did not end as they must:\n%s", len(wrong), len(all),
				strings.Join(wrong[:min(len(wrong), 30)], "\n"))
		}
	}
}

// rows describes an instruction's rows.
func (s *stage) rows(id payment.ID) string {
	var rows string
	s.cell.QueryRow(`SELECT coalesce(string_agg(state || coalesce(' ' || result, '') || coalesce(' ' || error_code, ''), ', ' ORDER BY attempt_no), '')
		FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, []any{[16]byte(id)}, &rows)
	return rows
}

// compareBanks compares the cells with each bank's ledger, which was on disk before any caller had
// an answer. An execution is recognized by its reference, which is the instruction's own id.
func (s *stage) compareBanks(all []cell) {
	s.t.Helper()
	executed := make(map[string]int)
	instructions := make(map[string]string) // by rail key
	for shape, bank := range s.banks {
		records, err := railsim.ReadLedger(bank.Ledger)
		s.must(err)
		for _, record := range records {
			if record.Kind == railsim.Executed {
				executed[record.Reference]++
				if other, used := instructions[record.Key]; used && other != record.Reference {
					s.t.Errorf("%s executed %s under the key of %s", shape.RailType(), record.Reference, other)
				}
				instructions[record.Key] = record.Reference
			}
		}
	}
	for _, c := range all {
		if got, want := executed[c.name()], c.want().executed; got != want {
			s.t.Errorf("%s: executed %d times, want %d", c.name(), got, want)
		}
	}
}

// compareLetters checks that an operator is asked about what the table parks or fails, and about
// nothing else.
func (s *stage) compareLetters(all []cell) {
	s.t.Helper()
	letters, err := s.reader.DeadLetters(s.t.Context(), reader.LetterFilter{Limit: reader.LettersMax})
	s.must(err)
	open := make(map[string]payment.DeadReason)
	for _, letter := range letters {
		open[letter.InstructionID] = letter.Reason
	}
	reasons := map[payment.State]payment.DeadReason{payment.Failed: payment.DeadFailed,
		payment.Parked: payment.DeadOutcomeUnknown}
	for _, c := range all {
		if got, want := open[c.name()], reasons[c.want().state]; got != want {
			s.t.Errorf("%s: dead letter %q, want %q", c.name(), got, want)
		}
	}
	for _, rail := range slices.Sorted(maps.Keys(s.rails)) {
		pauses := s.cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'PAUSE_RAIL'
			AND subject = $1`, rail)
		if pauses == 0 {
			s.t.Errorf("%s refused us as a whole and was never paused", rail)
		}
	}
}

// sameBytes compares every send of an instruction, as the bank received it, and
// returns how many were sent again.
func (s *stage) sameBytes() (resent int) {
	s.t.Helper()
	for shape, bank := range s.banks {
		bodies, sends := make(map[string]string), make(map[string]int)
		for _, request := range bank.Requests() {
			if request.Op != "payment" {
				continue
			}
			if first, ok := bodies[request.Key]; ok && first != request.BodySHA256 {
				s.t.Errorf("%s: %s was sent with other bytes", shape.RailType(), request.Reference)
			}
			bodies[request.Key] = request.BodySHA256
			if sends[request.Key]++; sends[request.Key] == 2 {
				resent++
			}
		}
		summary := bank.RequestSummary()
		if summary.ChangedKeys != 0 || summary.RekeyedReferences != 0 || summary.Rejected != 0 || summary.Forgotten != 0 {
			s.t.Errorf("%s has seen %+v", shape.RailType(), summary)
		}
		if !shape.Dedupes() && summary.MaxSends > 2 {
			s.t.Errorf("%s does not de-duplicate and got an instruction %d times", shape.RailType(), summary.MaxSends)
		}
	}
	return resent
}
