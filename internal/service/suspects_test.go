package service_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/payment"
)

func failed(id payment.ID, state string) service.Failed {
	return service.Failed{ID: id, Err: fmt.Errorf("ending it: %w", &pgconn.PgError{Code: state})}
}

// TestSuspects tests when a row that fails by itself is at fault.
func TestSuspects(t *testing.T) {
	t.Parallel()
	type turn struct {
		state   string // of the row; "": another row alone is given
		passed  bool
		others  int // that fail too
		untried bool
	}
	const after = time.Minute
	for name, c := range map[string]struct {
		turns []turn // half of the time apart
		want  int    // the turn after which it is at fault; 0: none
	}{
		"its value":                       {[]turn{{state: "22003", passed: true}}, 1},
		"its value, with others first":    {[]turn{{state: "22003"}, {state: "22003", passed: true}}, 2},
		"damaged":                         {[]turn{{state: "XX000", passed: true, others: 9}, {state: "XX000", others: 9}, {state: "XX000", others: 9}}, 3},
		"damaged, by several errors":      {[]turn{{state: "XX000", passed: true}, {state: "58P01"}, {state: "XX002"}}, 3},
		"damaged, and others pass later":  {[]turn{{state: "XX000", others: 9}, {state: "XX000", others: 9}, {state: "XX000", passed: true}}, 3},
		"damaged, and few":                {[]turn{{state: "XX000", others: 1}, {state: "XX000", others: 1}, {state: "XX000", others: 1}}, 3},
		"none passes":                     {[]turn{{state: "XX000", others: 2}, {state: "XX000", others: 2}, {state: "XX000", others: 2}}, 0},
		"twice":                           {[]turn{{state: "XX000", passed: true}, {}, {state: "XX000", passed: true}, {state: "XX000"}}, 0},
		"not tried once":                  {[]turn{{state: "XX000", passed: true}, {untried: true}, {state: "XX000"}, {state: "XX000"}}, 4},
		"locked each time":                {[]turn{{state: "55P03", passed: true}, {state: "55P03", passed: true}, {state: "55P03", passed: true}, {state: "55P03", passed: true}}, 0},
		"a full disk":                     {[]turn{{state: "53100", passed: true}, {state: "53100", passed: true}, {state: "53100", passed: true}}, 0},
		"a lock before the time was over": {[]turn{{state: "XX000", passed: true}, {state: "XX000"}, {state: "55P03"}, {state: "XX000"}, {state: "XX000"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := service.Suspects{After: after, Alone: 2}
				id, got := payment.NewID(), 0
				for n, turn := range c.turns {
					var rows []service.Failed
					var untried []payment.ID
					switch {
					case turn.untried:
						untried = []payment.ID{id}
					case turn.state != "":
						rows = append(rows, failed(id, turn.state))
					}
					for range turn.others {
						rows = append(rows, failed(payment.NewID(), "XX000"))
					}
					faulty, rest := s.Judge(rows, untried, turn.passed)
					if len(faulty)+len(rest) != len(rows) {
						t.Fatalf("turn %d: %d at fault, %d not, of %d", n+1, len(faulty), len(rest), len(rows))
					}
					if len(faulty) > 0 && faulty[0].ID == id {
						got = n + 1
						break
					}
					time.Sleep(after / 2)
				}
				if got != c.want {
					t.Errorf("at fault after turn %d, want %d", got, c.want)
				}
			})
		})
	}
}

// TestSuspectsNeedTurns tests that a long time between two failures alone puts no row at fault, nor do many failures in
// a short time.
func TestSuspectsNeedTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := service.Suspects{After: time.Minute}
		id := payment.NewID()
		for n, want := range []int{0, 0, 1} {
			if faulty, _ := s.Judge([]service.Failed{failed(id, "XX000")}, nil, true); len(faulty) != want {
				t.Errorf("turn %d: %d at fault, want %d", n+1, len(faulty), want)
			}
			time.Sleep(time.Hour)
		}
		id = payment.NewID()
		for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Second) {
			if faulty, _ := s.Judge([]service.Failed{failed(id, "XX000")}, nil, true); len(faulty) > 0 {
				t.Fatalf("at fault after %s", time.Since(begun))
			}
		}
	})
}

// TestSuspectsBehind tests that turns in which no row passes try other rows behind the first ones, all of them in turn,
// from the first one to which no turn came yet, and that others stay with those among which one passed.
func TestSuspectsBehind(t *testing.T) {
	t.Parallel()
	rows := make([]payment.ID, 7)
	for n := range rows {
		rows[n] = payment.NewID()
	}
	var s service.Suspects
	for n, turn := range []struct {
		rows, first, last int // of the rows, those that are to be tried
		passed            bool
		untried           int // the last of them, to which the turn did not come
	}{
		{7, 0, 3, false, 0}, {7, 3, 6, true, 0}, {6, 3, 6, false, 0}, {7, 6, 7, false, 0}, {7, 0, 3, false, 2},
		{7, 1, 4, false, 3}, {7, 1, 4, true, 1}, {7, 1, 4, false, 0}, {2, 0, 2, true, 0}, {0, 0, 0, false, 0},
	} {
		got := s.Behind(slices.Clone(rows[:turn.rows]), nil, new([]payment.ID), 3)
		if !slices.Equal(got, rows[turn.first:turn.last]) {
			t.Errorf("turn %d: %s, want rows %d to %d of %s", n, got, turn.first, turn.last, rows)
		}
		s.Judge(nil, rows[turn.last-turn.untried:turn.last], turn.passed)
		s.Judge(nil, nil, false) // a turn that tries none
	}
}

// TestSuspectsBehindUntriedOnes tests that first rows to which a turn did not come are tried as those behind them are.
func TestSuspectsBehindUntriedOnes(t *testing.T) {
	t.Parallel()
	rows := make([]payment.ID, 6)
	for n := range rows {
		rows[n] = payment.NewID()
	}
	var s service.Suspects
	untried := slices.Clone(rows[1:4])
	if got := s.Behind(slices.Clone(rows), rows[:4], &untried, 2); !slices.Equal(got, rows[1:3]) {
		t.Errorf("%s, want rows 1 and 2 of %s", got, rows)
	}
	if !slices.Equal(untried, rows[3:4]) {
		t.Errorf("%s are not tried, want row 3 of %s", untried, rows)
	}
}
