package streams_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/testbed/streams"
)

// programs builds railhead and testbed, and returns their folder.
func programs(t *testing.T) string {
	t.Helper()
	binaries := t.TempDir()
	for folder, program := range map[string]string{"../..": "./cmd/railhead", "..": "./cmd/testbed"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binaries+"/", program)
		build.Dir = folder
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", program, err, output)
		}
	}
	return binaries
}

// TestBrokers is the short form of make brokers.
func TestBrokers(t *testing.T) {
	t.Parallel()
	counted, err := streams.Run(t.Context(), streams.Options{
		Payments: 500, Faults: 10, Seed: 1, Bound: 10 * time.Minute, Evidence: filepath.Join(t.TempDir(), "evidence"),
		Binaries: programs(t), Out: t.Output(),
	})
	t.Logf("%s; %s", counted.Faults(), counted)
	if err != nil {
		t.Fatal(err)
	}
	if counted.Payments != 500 || counted.KilledRelayer == 0 || counted.KilledBroker == 0 || counted.KilledFake == 0 ||
		counted.KilledConsumer < 2 || counted.LostAcks == 0 || counted.AfterWindow == 0 ||
		counted.Resent < counted.AfterWindow || counted.ParkedStored == 0 || counted.Mistaken != 5 || counted.Failed > 0 {
		t.Error("so little was broken or paid that this proves nothing")
	}
}

// TestRunToAStream tests make run RAIL=nats ONCE=1, twice in one folder: the second run goes on with the stream.
func TestRunToAStream(t *testing.T) {
	t.Parallel()
	binaries, dir := programs(t), t.TempDir()
	for n := range 2 {
		run := exec.CommandContext(t.Context(), filepath.Join(binaries, "railhead"), "dev", "--once", "--rail", "nats",
			"--dir", filepath.Join(dir, "run"), "--evidence", filepath.Join(dir, "evidence"),
			"--instructions", "50", "--participants", "5")
		output, err := run.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "enqueued=50 dispatched=50 stored=50 doubled=0") {
			t.Fatalf("run %d: %v\n%s", n+1, err, output)
		}
	}
	messages, err := os.ReadFile(filepath.Join(dir, "evidence", "stream.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(messages), "\n"); lines != 100 {
		t.Errorf("the stream has %d messages, want those of two runs", lines)
	}
}

// TestRunToATopic tests make run RAIL=kafka ONCE=1, twice in one folder: the second run goes on with the topic of the
// fake, and every line about Kafka says that it is one.
func TestRunToATopic(t *testing.T) {
	t.Parallel()
	binaries, dir := programs(t), t.TempDir()
	for n := range 2 {
		run := exec.CommandContext(t.Context(), filepath.Join(binaries, "railhead"), "dev", "--once", "--rail", "kafka",
			"--dir", filepath.Join(dir, "run"), "--evidence", filepath.Join(dir, "evidence"),
			"--instructions", "50", "--participants", "5")
		output, err := run.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "enqueued=50 dispatched=50 kafka=fake stored=50 doubled=0") {
			t.Fatalf("run %d: %v\n%s", n+1, err, output)
		}
		for line := range strings.Lines(string(output)) {
			if lower := strings.ToLower(line); strings.Contains(lower, "kafka") && !strings.Contains(lower, "fake") {
				t.Errorf("a line does not say that it is a fake: %s", line)
			}
		}
	}
	records, err := os.ReadFile(filepath.Join(dir, "evidence", "topic-of-a-fake.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(records), "\n"); lines != 100 {
		t.Errorf("the topic has %d records, want those of two runs", lines)
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
