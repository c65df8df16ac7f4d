package localrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/railsim"
)

// bank is the simulated bank, a process with a ledger of its own.
type bank struct {
	process *process
	addr    string
	ledger  string
}

func (b *bank) start(ctx context.Context, i *installation) error {
	b.ledger = filepath.Join(i.Dir, b.ledgerName())
	addrFile := filepath.Join(i.Dir, "bank.addr")
	if err := os.Remove(addrFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(b.ledger); err == nil {
		i.say("bank: goes on with its ledger %s", b.ledger)
	}
	var err error
	b.process, err = i.startProcess("bank", i.Payee, nil,
		"--listen", "127.0.0.1:0", "--addr-file", addrFile, "--ledger", b.ledger, "--draw", "arrival")
	if err != nil {
		return err
	}
	if b.addr, err = b.process.awaitFile(ctx, addrFile); err != nil {
		return err
	}
	// A bank that is restarted must listen where the relayer expects it.
	b.process.comesBackAt(b.addr)
	i.say("bank: http://%s, its own ledger in %s", b.addr, b.ledger)
	return nil
}

func (b *bank) rails() ([]byte, error) { return railsfile.Bank("http://" + b.addr) }

func (b *bank) railType() string { return "bank" }

func (b *bank) ledgerName() string { return "bank-ledger.jsonl" }

func (b *bank) copyLedger(_ context.Context, file string) error {
	ledger, err := os.ReadFile(b.ledger)
	if err != nil {
		return fmt.Errorf("reading the bank's ledger: %w", err)
	}
	return os.WriteFile(file, ledger, 0o644)
}

func (b *bank) count(file string) (map[string]int, error) {
	records, err := railsim.ReadLedger(file)
	if err != nil {
		return nil, fmt.Errorf("reading the bank's ledger: %w", err)
	}
	executions := make(map[string]int)
	for _, record := range records {
		if record.Kind == railsim.Executed {
			executions[record.Key]++
		}
	}
	return executions, nil
}

func (b *bank) says(arrived, doubled int) string {
	return fmt.Sprintf("the bank says:     executed %d, executed twice %d", arrived, doubled)
}

func (b *bank) verb() string { return "executed" }

// switches lists the faults that the simulated bank can be given, as rules of railsim.
var switches = []struct{ name, rules, effect string }{
	{"lose", `{"kind":"drop_after"}`, "Executes each payment and loses the answer: UNKNOWN until an inquiry."},
	{"refuse", `{"kind":"refuse"}`, "Refuses each new payment for lack of funds (AM04): FAILED."},
	{"busy", `{"kind":"status_before","status":429}`, "Answers 429 and executes nothing: the payment is tried again later."},
	{"normal", ``, "Executes each payment and answers, as at the start."},
}

func (b *bank) guide() string {
	out := &strings.Builder{}
	fmt.Fprintf(out, "\n# Switches of the simulated bank (railsim/faults.go has more kinds).\n")
	for _, each := range switches {
		fmt.Fprintf(out, "# %-6s  %s\ncurl -X PUT %s/admin/faults -d '{\"rules\":[%s]}'\n", each.name, each.effect,
			b.addr, each.rules)
	}
	return out.String()
}

func (b *bank) stop() error {
	if b.process == nil {
		return nil
	}
	return b.process.stop(10 * time.Second)
}
