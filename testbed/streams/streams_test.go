package streams_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/testbed/streams"
)

// TestBrokers is the short form of make brokers.
func TestBrokers(t *testing.T) {
	t.Parallel()
	binaries := t.TempDir()
	for folder, program := range map[string]string{"../..": "./cmd/railhead", "..": "./cmd/testbed"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binaries+"/", program)
		build.Dir = folder
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", program, err, output)
		}
	}
	counted, err := streams.Run(t.Context(), streams.Options{
		Payments: 500, Faults: 16, Seed: 1, Bound: 10 * time.Minute, Evidence: filepath.Join(t.TempDir(), "evidence"),
		Binaries: binaries, Out: t.Output(),
	})
	t.Logf("%s; %s", counted.Faults(), counted)
	if err != nil {
		t.Fatal(err)
	}
	if counted.Payments != 500 || counted.KilledRelayer == 0 || counted.KilledBroker == 0 || counted.LostAcks == 0 ||
		counted.AfterWindow == 0 || counted.Resent < counted.AfterWindow || counted.Parked+counted.Failed > 0 {
		t.Error("so little was broken or paid that this proves nothing")
	}
}

// TestTooFew tests that a run that could prove nothing is refused.
func TestTooFew(t *testing.T) {
	t.Parallel()
	for _, payments := range []int{0, 99, 1_000_001} {
		if _, err := streams.Run(t.Context(), streams.Options{Payments: payments, Evidence: t.TempDir()}); err == nil {
			t.Errorf("%d payments were accepted", payments)
		}
	}
	if _, err := streams.Run(t.Context(), streams.Options{Payments: 500, Faults: 2, Evidence: t.TempDir()}); err == nil {
		t.Error("2 faults were accepted")
	}
}
