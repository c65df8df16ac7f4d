package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/railsim"
)

// build compiles the command once for a test.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "railsim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// process is a running bank.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	log  bytes.Buffer
	done chan error
}

// launch starts a bank and returns once it listens.
func launch(t *testing.T, bin, dir string, args ...string) *process {
	t.Helper()
	addrFile := filepath.Join(dir, "addr")
	if err := os.RemoveAll(addrFile); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, done: make(chan error, 1)}
	p.cmd = exec.Command(bin, append([]string{"--addr-file", addrFile, "--ledger", filepath.Join(dir, "ledger.jsonl")},
		args...)...)
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { p.cmd.Process.Kill() })
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if data, err := os.ReadFile(addrFile); err == nil {
			p.addr = strings.TrimSpace(string(data))
			return p
		}
		select {
		case <-tick.C:
		case err := <-p.done:
			t.Fatalf("the bank ended: %v\n%s", err, p.log.String())
		case <-ctx.Done():
			t.Fatal("the bank wrote no address")
		}
	}
}

// stop ends the bank with a signal and returns how it ended.
func (p *process) stop(s os.Signal) error {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.done:
		return err
	case <-time.After(10 * time.Second):
		p.t.Fatal("the bank does not end")
		return nil
	}
}

// pay sends one payment and returns status, body, and whether it was a replay. An error is a status of 0.
func (p *process) pay(client *http.Client, name string) (status int, body string, replayed bool) {
	text := fmt.Sprintf(`{"reference":%q,"amount":"1.00","currency":"EUR","debtor":{"account":"A"},"creditor":{"account":"B"}}`, name)
	req, err := http.NewRequest(http.MethodPost, "http://"+p.addr+"/payments", strings.NewReader(text))
	if err != nil {
		p.t.Error(err)
		return 0, "", false
	}
	req.GetBody = nil
	req.Header.Set("Idempotency-Key", name)
	res, err := client.Do(req)
	if err != nil {
		return 0, "", false
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", false
	}
	return res.StatusCode, string(data), res.Header.Get("Idempotent-Replayed") == "true"
}

func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// A bank that is killed at full load, five times over, has every answered payment in its ledger, replays each of them
// with the answer given before, and executes nothing twice.
func TestKilledBankForgetsNothing(t *testing.T) {
	bin, dir := build(t), t.TempDir()
	requests := filepath.Join(dir, "requests.jsonl")
	answers := map[string]string{}
	n := 0
	for life := range 5 {
		p := launch(t, bin, dir, "--requests", requests)
		client := newClient(t)
		for name, answer := range answers {
			status, body, replayed := p.pay(client, name)
			if status != http.StatusCreated || body != answer || !replayed {
				t.Fatalf("life %d: %s was answered %q, and now %d %q", life, name, answer, status, body)
			}
		}
		enough := make(chan struct{})
		var mu sync.Mutex
		var wg sync.WaitGroup
		fresh := 0
		for range 16 {
			wg.Go(func() {
				for {
					mu.Lock()
					n++
					name := fmt.Sprintf("pay-%d", n)
					mu.Unlock()
					status, body, _ := p.pay(client, name)
					if status == 0 {
						return
					}
					mu.Lock()
					answers[name] = body
					if fresh++; fresh == 150 {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		if err := p.stop(syscall.SIGKILL); err == nil {
			t.Error("a killed bank ended well")
		}
		wg.Wait()
	}

	records, err := railsim.ReadLedger(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s := railsim.Summarise(records)
	if s.Doubled != 0 || s.Executed < len(answers) || s.Executed > n {
		t.Errorf("%d sent, %d answered, ledger %+v", n, len(answers), s)
	}
	byName := map[string]string{}
	for _, r := range records {
		byName[r.Reference] = r.ID
	}
	for name, answer := range answers {
		if byName[name] == "" || !strings.Contains(answer, byName[name]) {
			t.Errorf("%s was answered %s, the ledger has %q", name, answer, byName[name])
		}
	}
	if seen, err := os.ReadFile(requests); err != nil || bytes.Count(seen, []byte("\n")) < len(answers) {
		t.Errorf("the request file has %d lines for %d answers (%v)", bytes.Count(seen, []byte("\n")), len(answers), err)
	}
}

// An answer that a fault swallowed is found again by the next life.
func TestKeyMemoryOutlivesAKillAfterADrop(t *testing.T) {
	bin, dir := build(t), t.TempDir()
	faults := filepath.Join(dir, "faults.json")
	if err := os.WriteFile(faults, []byte(`{"rules":[{"kind":"hang_after","match":{"key_prefix":"lost"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, bin, dir, "--faults", faults, "--seed", "42")
	client := newClient(t)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := p.pay(client, "lost-1")
		answered <- status
	}()
	for executed(t, p) == 0 && t.Context().Err() == nil {
	}
	if err := p.stop(syscall.SIGKILL); err == nil {
		t.Error("a killed bank ended well")
	}
	if status := <-answered; status != 0 {
		t.Errorf("the hung payment was answered %d", status)
	}
	p = launch(t, bin, dir)
	if status, body, replayed := p.pay(client, "lost-1"); status != http.StatusCreated || !replayed {
		t.Errorf("re-send: %d %s", status, body)
	}
	if n := executed(t, p); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// executed asks a running bank.
func executed(t *testing.T, p *process) int {
	t.Helper()
	res, err := http.Get("http://" + p.addr + "/ledger/summary")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var s railsim.Summary
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s.Executed
}

func TestSignalsEndTheBankWell(t *testing.T) {
	bin, dir := build(t), t.TempDir()
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := launch(t, bin, dir)
		if status, _, _ := p.pay(newClient(t), s.String()); status != http.StatusCreated {
			t.Errorf("%v: status %d", s, status)
		}
		if err := p.stop(s); err != nil {
			t.Errorf("%v: %v\n%s", s, err, p.log.String())
		}
	}
	if leftover, err := filepath.Glob(filepath.Join(dir, "addr.*")); err != nil || len(leftover) != 0 {
		t.Errorf("left over: %v (%v)", leftover, err)
	}
	out, err := exec.CommandContext(t.Context(), bin, "--ledger", filepath.Join(dir, "ledger.jsonl"), "--summary").Output()
	if err != nil || !strings.Contains(string(out), `"executed": 2`) {
		t.Errorf("summary %s (%v)", out, err)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ledger := filepath.Join(dir, "ledger.jsonl")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"ledger path is empty", nil},
		{"unexpected argument", []string{"--ledger", ledger, "x"}},
		{"mode", []string{"--ledger", ledger, "--mode", "never"}},
		{"the file is empty", []string{"--ledger", ledger, "--bearer-token-file", empty}},
		{"the file is empty", []string{"--ledger", ledger, "--hmac-secret-file", empty}},
		{"no such file", []string{"--ledger", ledger, "--faults", filepath.Join(dir, "none")}},
		{"-client-ca needs", []string{"--ledger", ledger, "--client-ca", empty}},
		{"TLS certificate", []string{"--ledger", ledger, "--tls-cert", empty, "--tls-key", empty}},
		{"listen", []string{"--ledger", ledger, "--listen", "nowhere"}},
		{"write address", []string{"--ledger", ledger, "--addr-file", filepath.Join(dir, "none", "addr")}},
	} {
		err := run(t.Context(), c.args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.args, err, c.says)
		}
	}
}
