package alertdrill

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/railsim"
)

// bank is a simulated bank as a process of its own.
type bank struct {
	*child.Process
	url string
}

// bankSecret signs the callbacks of the run's banks. It guards nothing.
var bankSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("the banks of the run sign by this"))

func (w *world) startBank(ctx context.Context, r *rail) (*bank, error) {
	name := "bank-" + r.Name
	addrFile := filepath.Join(w.dir, name+".addr")
	args := []string{
		"--listen", "127.0.0.1:0", "--addr-file", addrFile, "--ledger", filepath.Join(w.dir, name+".jsonl"),
		"--draw", string(railsim.DrawByArrival), fmt.Sprintf("--dedupe=%t", r.Dedupes), fmt.Sprintf("--store-refusals=%t", !r.Dedupes), "--max-hang", "1m",
	}
	if r.Calls {
		secret := filepath.Join(w.dir, "secret")
		if err := os.WriteFile(secret, []byte(bankSecret), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--mode", string(railsim.Provisional), "--settle-delay", "100ms",
			"--callback-url", "http://"+w.calls+"/callbacks/"+r.Name, "--callback-secret-file", secret)
	}
	p, err := w.startProcess(name, filepath.Join(w.binaries, "railsim"), nil, args...)
	if err != nil {
		return nil, err
	}
	addr, err := p.AwaitFile(ctx, addrFile)
	return &bank{Process: p, url: "http://" + addr}, err
}

// spoil puts faults in force, each for every payment; none heals the bank.
func (b *bank) spoil(ctx context.Context, faults ...railsim.Fault) error {
	rules := []railsim.Fault{}
	for _, fault := range faults {
		if fault.Probability == 0 {
			fault.Probability = 1
		}
		rules = append(rules, fault)
	}
	body, err := json.Marshal(map[string]any{"rules": rules})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, b.url+"/admin/faults", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("%s: %s: %s", request.URL, answer.Status, said)
	}
	return nil
}
