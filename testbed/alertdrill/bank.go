package alertdrill

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/testbed/banks"
)

// bank is a simulated bank that runs as a process of its own.
type bank struct {
	*child.Process
	banks.Control
}

// bankSecret signs the callbacks of the run's banks. It protects nothing.
var bankSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("the banks of the run sign by this"))

func (w *world) startBank(ctx context.Context, r *rail) (*bank, error) {
	name := "bank-" + r.Name
	addrFile := filepath.Join(w.dir, name+".addr")
	args := []string{
		"--listen", "127.0.0.1:0", "--addr-file", addrFile, "--ledger", filepath.Join(w.dir, name+".jsonl"),
		"--draw", string(railsim.DrawByArrival), fmt.Sprintf("--dedupe=%t", r.Dedupes),
		fmt.Sprintf("--store-refusals=%t", !r.Dedupes), "--max-hang", "1m",
	}
	if r.Calls {
		secret := filepath.Join(w.dir, "secret")
		if err := os.WriteFile(secret, []byte(bankSecret), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--mode", string(railsim.Provisional), "--settle-delay", "100ms",
			"--callback-url", "http://"+w.calls+"/callbacks/"+r.Name, "--callback-secret-file", secret)
	}
	p, addr, err := child.In(w.dir, name, filepath.Join(w.binaries, "railsim"), nil, args...).Listen(ctx, addrFile)
	return &bank{p, banks.Control{URL: "http://" + addr}}, err
}

// spoil puts faults in force, each for every payment; without faults it heals the bank.
func (b *bank) spoil(ctx context.Context, faults ...railsim.Fault) error {
	for n := range faults {
		if faults[n].Probability == 0 {
			faults[n].Probability = 1
		}
	}
	return b.Spoil(ctx, faults...)
}
