package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/testbed/banks"
)

// Bank is a simulated bank that runs as a process of its own. Its ledger file is the only
// witness of what was paid.
type Bank struct {
	*Process
	banks.Control
	ledger   string
	requests string
}

// startBank starts a simulated bank; more holds further flags of railsim.
func startBank(ctx context.Context, dir, name, binary string, seed uint64, more ...string) (*Bank, error) {
	bank := &Bank{ledger: filepath.Join(dir, name+"-ledger.jsonl"), requests: filepath.Join(dir, name+"-requests.jsonl")}
	addrFile := filepath.Join(dir, name+".addr")
	args := append([]string{
		"--listen", "127.0.0.1:0", "--addr-file", addrFile, "--ledger", bank.ledger, "--requests", bank.requests,
		"--seed", strconv.FormatUint(seed, 10), "--draw", string(railsim.DrawByArrival), "--max-hang", "30s",
	}, more...)
	p, addr, err := child.In(dir, name, binary, nil, args...).Listen(ctx, addrFile)
	if p == nil {
		return nil, err
	}
	bank.Process, bank.URL = &Process{p}, "http://"+addr
	return bank, err
}

// moved returns every record of the ledger file, as it is on disk.
func (b *Bank) moved() ([]railsim.Record, error) { return railsim.ReadLedger(b.ledger) }

// heard returns every request that the bank has received.
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
