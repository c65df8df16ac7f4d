package localrun

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

func (i *installation) railsFile() string { return filepath.Join(i.Dir, "rails.yaml") }

// applyRails writes the rails file for what was just started and puts its profile in force, as an
// operator does.
func (i *installation) applyRails(ctx context.Context) error {
	text, err := i.payee.rails()
	if err != nil {
		return err
	}
	if err := os.WriteFile(i.railsFile(), text, 0o644); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, i.Railhead, "rail", "apply", i.railsFile(), "--reason", "local run")
	command.Env = i.environment("RAILHEAD_CELL="+i.Cell, "RAILHEAD_OPERATOR_URL="+i.loginURL("railhead_operator_login"))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("applying the rail's profile: %w\n%s", err, output)
	}
	return nil
}

func (i *installation) sampleFile() string { return filepath.Join(i.Evidence, "instructions.jsonl") }

// writeSample writes the instructions of this run: the same amounts and parties every time, under
// instruction ids of this run's own.
func (i *installation) writeSample() error {
	file, err := os.Create(i.sampleFile())
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	currencies := []string{"EUR", "GBP", "USD", "JPY", "KWD"}
	for n := 1; n <= i.Instructions; n++ {
		currency, err := payment.CurrencyOf(currencies[n%len(currencies)])
		if err != nil {
			return err
		}
		participant := fmt.Sprintf("participant-%02d", n%i.Participants+1)
		line := map[string]any{
			"instruction_id":  i.instructionID(n),
			"participant_id":  participant,
			"idempotency_key": i.instructionID(n) + "-key",
			"rail_type":       i.payee.railType(),
			"priority":        n % 3,
			"payload": map[string]any{
				"amount":   payment.Amount{Minor: int64(100 + n*37%100_000), Currency: currency}.Decimal(),
				"currency": currency.Code,
				"debtor":   map[string]any{"account": participant},
				"creditor": map[string]any{"account": fmt.Sprintf("creditor-%03d", n%200)},
				"purpose":  "SUPP",
			},
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return errors.Join(out.Flush(), file.Close())
}

func (i *installation) instructionID(n int) string { return fmt.Sprintf("run-%s-%06d", i.runID, n) }

// paySample enqueues the sample with the command that an ingest team would use, and waits until
// every instruction has ended or waits for an operator.
func (i *installation) paySample(ctx context.Context) (summary, error) {
	if err := i.writeSample(); err != nil {
		return summary{}, fmt.Errorf("writing the sample: %w", err)
	}
	results, err := os.Create(filepath.Join(i.Evidence, "enqueued.jsonl"))
	if err != nil {
		return summary{}, err
	}
	defer results.Close()
	begun := time.Now()
	command := exec.CommandContext(ctx, i.Railhead, "enqueue", "--file", i.sampleFile(), "-o", "json")
	command.Env = i.environment("RAILHEAD_CELL="+i.Cell, "RAILHEAD_INGEST_URL="+i.loginURL("railhead_ingest_login"))
	command.Stdout, command.Stderr = results, i.Out
	if err := command.Run(); err != nil {
		return summary{}, fmt.Errorf("enqueueing the sample: %w", err)
	}
	if err := results.Close(); err != nil {
		return summary{}, err
	}
	i.say("enqueued %d instructions of %d participants in %s as login railhead_ingest_login",
		i.Instructions, i.Participants, time.Since(begun).Round(time.Millisecond))
	return i.awaitEnd(ctx)
}
