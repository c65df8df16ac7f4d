package money_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/testbed/money"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database is a cell of the tests.
func database(t *testing.T) money.Database {
	cell := celltest.New(t)
	return money.Database{
		URL: cell.URL, Cell: cell.Schema, Ingest: celltest.Ingest, Relayer: celltest.Relayer, Reaper: celltest.Reaper,
		Callbacks: celltest.Callbacks, Operator: celltest.Operator, Reader: celltest.Readonly,
	}
}

// TestMoney is the short form of make money: every shape of rail, every fault.
func TestMoney(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	speed := money.DefaultSpeed()
	speed.Callback = 4 * time.Second
	report, err := money.Run(t.Context(), money.Options{
		Payments: 300, Seed: uint64(time.Now().UnixNano()) >> 20, Bound: time.Minute, Speed: speed, Evidence: dir,
		Out: t.Output(),
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError + 1})),
	}, database(t))
	t.Log(report.Line())
	if err != nil {
		t.Fatal(err)
	}
	// A fifth of 300 calls and of those that follow from them: fewer than 30 are drawn once in a million runs.
	if report.Injected < 30 || report.Terminal < report.Payments/2 {
		t.Errorf("so little was injected or ended that this proves nothing: %s", report.Line())
	}
	for _, name := range []string{"attempts.csv", "options.json", "summary.json", "ledgers"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// rash treats silence as permission: it sends a payment without an answer again at once, under a
// new key.
type rash struct{ rails.Rail }

func (r rash) Send(ctx context.Context, s rails.Send) rails.Result {
	s.RailKey = rand.Text()
	result := r.Rail.Send(ctx, s)
	if result.Result == payment.ResultUnknown {
		result.Result = payment.ResultRefusedTransient
	}
	return result
}

// TestSilenceIsNoPermission checks that the run detects second executions.
func TestSilenceIsNoPermission(t *testing.T) {
	t.Parallel()
	report, err := money.Run(t.Context(), money.Options{
		Payments: 100, Seed: 1, Bound: time.Minute, Evidence: t.TempDir(), Out: t.Output(),
		Shapes: []simrail.Shape{{Acceptance: payment.AcceptanceFinal, Resend: payment.ResendSameKey}},
		Wrap:   func(rail rails.Rail) rails.Rail { return rash{rail} },
	}, database(t))
	if !errors.Is(err, money.ErrMoney) || report.Doubled == 0 {
		t.Errorf("UNKNOWN as RETRYABLE with a new key went unseen: %s, %v", report.Line(), err)
	}
}

// liar reports that it paid, and has not paid.
type liar struct{ rails.Rail }

func (l liar) Send(context.Context, rails.Send) rails.Result {
	return rails.Result{Result: payment.ResultAccepted, Reference: "RS1", FirstByte: true}
}

// denier reports that nothing was paid, and has paid.
type denier struct{ rails.Rail }

func (d denier) Send(ctx context.Context, s rails.Send) rails.Result {
	result := d.Rail.Send(ctx, s)
	if result.Result == payment.ResultAccepted {
		result.Result = payment.ResultRefusedFinal
	}
	return result
}

// TestFalseWordsAreSeen checks that the other two counts can rise as well.
func TestFalseWordsAreSeen(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(rails.Rail) rails.Rail{
		"dispatched": func(rail rails.Rail) rails.Rail { return liar{rail} },
		"failed":     func(rail rails.Rail) rails.Rail { return denier{rail} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := money.Run(t.Context(), money.Options{
				Payments: 20, Seed: 1, Faults: 0.01, Bound: time.Minute, Evidence: t.TempDir(), Out: t.Output(),
				Shapes: []simrail.Shape{{Acceptance: payment.AcceptanceFinal, Resend: payment.ResendNever}},
				Wrap:   wrap,
			}, database(t))
			seen := map[string]int{"dispatched": report.FalseDispatched, "failed": report.FalseFailed}[name]
			if !errors.Is(err, money.ErrMoney) || seen < 10 {
				t.Errorf("%d seen, %v", seen, err)
			}
		})
	}
}

// TestEveryFaultIsThere compares the rules with the faults that the bank supports: a fault that is
// added to the bank must be added here too.
func TestEveryFaultIsThere(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../railsim/faults.go")
	if err != nil {
		t.Fatal(err)
	}
	injected := money.FaultKinds()
	found := regexp.MustCompile(`FaultKind = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	for _, kind := range found {
		if !slices.Contains(injected, railsim.FaultKind(kind[1])) {
			t.Errorf("%s is never injected", kind[1])
		}
	}
	if len(found) < 40 || len(found) != len(injected) {
		t.Errorf("%d kinds are known, %d are injected", len(found), len(injected))
	}
}
