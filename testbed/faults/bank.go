package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/railhead-pay/railhead/railsim"
)

// Bank is a simulated bank as a process of its own. Its ledger file is the only
// witness of money.
type Bank struct {
	*Process
	URL      string
	ledger   string
	requests string
}

// startBank starts one; more are flags of railsim.
func startBank(ctx context.Context, dir, name, binary string, seed uint64, more ...string) (*Bank, error) {
	bank := &Bank{ledger: filepath.Join(dir, name+"-ledger.jsonl"), requests: filepath.Join(dir, name+"-requests.jsonl")}
	addrFile := filepath.Join(dir, name+".addr")
	args := append([]string{
		"--listen", "127.0.0.1:0", "--addr-file", addrFile, "--ledger", bank.ledger, "--requests", bank.requests,
		"--seed", strconv.FormatUint(seed, 10), "--draw", string(railsim.DrawByArrival), "--max-hang", "30s",
	}, more...)
	var err error
	if bank.Process, err = startProcess(dir, name, binary, nil, args...); err != nil {
		return nil, err
	}
	addr, err := bank.AwaitFile(ctx, addrFile)
	bank.URL = "http://" + addr
	return bank, err
}

// spoil puts fault rules in force; none heals the bank.
func (b *Bank) spoil(ctx context.Context, rules ...railsim.Fault) error {
	if rules == nil {
		rules = []railsim.Fault{}
	}
	body, err := json.Marshal(map[string]any{"rules": rules})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, b.URL+"/admin/faults", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return b.ask(request, nil)
}

// spoiled is how many requests, and connections, the faults have hit so far.
func (b *Bank) spoiled(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL+"/admin/faults", http.NoBody)
	if err != nil {
		return 0, err
	}
	var state railsim.FaultState
	if err := b.ask(request, &state); err != nil {
		return 0, err
	}
	sum := 0
	for _, n := range state.Totals {
		sum += int(n)
	}
	return sum, nil
}

func (b *Bank) ask(request *http.Request, into any) error {
	// A connection fault hits this connection as any other: then ask again.
	client := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	var last error
	for range 60 {
		answer, err := client.Do(request)
		if err != nil {
			last = err
			if request.GetBody != nil {
				request.Body, _ = request.GetBody()
			}
			continue
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
		answer.Body.Close()
		switch {
		case err != nil:
			last = err
			continue
		case answer.StatusCode != http.StatusOK:
			return fmt.Errorf("%s: %s: %s", request.URL.Path, answer.Status, text)
		case into == nil:
			return nil
		}
		return json.Unmarshal(text, into)
	}
	return fmt.Errorf("%s: the bank does not answer: %w", request.URL.Path, last)
}

// moved is every record of the ledger file, as it is on disk.
func (b *Bank) moved() ([]railsim.Record, error) { return railsim.ReadLedger(b.ledger) }

// heard is every request that the bank has seen.
func (b *Bank) heard() ([]railsim.Request, error) {
	file, err := os.Open(b.requests)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []railsim.Request
	for decoder := json.NewDecoder(file); ; {
		var one railsim.Request
		if err := decoder.Decode(&one); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", b.requests, err)
		}
		all = append(all, one)
	}
}
