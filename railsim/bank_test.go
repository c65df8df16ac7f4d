package railsim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fixture is a bank that serves on a free port until its test ends.
type fixture struct {
	t      *testing.T
	bank   *Bank
	url    string
	client *http.Client
	close  func()
}

// start opens a bank. Without a ledger path it gets a fresh one.
func start(t *testing.T, cfg Config) *fixture {
	t.Helper()
	if cfg.LedgerPath == "" {
		cfg.LedgerPath = filepath.Join(t.TempDir(), "ledger.jsonl")
	}
	bank, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- bank.Serve(l) }()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	f := &fixture{t: t, bank: bank, url: "http://" + l.Addr().String()}
	f.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	f.close = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		if err := bank.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(f.close)
	return f
}

// got is an answer as a client sees it.
type got struct {
	status int
	header http.Header
	body   []byte
	reply  reply
	err    error
}

func (g got) String() string {
	if g.err != nil {
		return "error: " + g.err.Error()
	}
	return fmt.Sprintf("%d %s%.200s", g.status, g.header.Get("Idempotent-Replayed"), g.body)
}

// do sends one request exactly once and reads at most 1 MiB of the answer.
func (f *fixture) do(ctx context.Context, method, path, body string, header ...string) got {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.GetBody = nil // else the transport repeats a keyed POST by itself when a kept connection drops
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := f.client.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer res.Body.Close()
	g := got{status: res.StatusCode, header: res.Header}
	g.body, g.err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
	_ = json.Unmarshal(g.body, &g.reply)
	return g
}

// post pays with a context of the caller's.
func (f *fixture) post(ctx context.Context, key, body string) got {
	f.t.Helper()
	return f.do(ctx, http.MethodPost, "/payments", body, "Idempotency-Key", key)
}

func (f *fixture) pay(key, body string) got {
	f.t.Helper()
	return f.post(f.t.Context(), key, body)
}

func (f *fixture) inquire(key string) got {
	f.t.Helper()
	return f.do(f.t.Context(), http.MethodGet, "/payments/by-key/"+key, "")
}

// until asks again and again, as fast as the bank answers, until it says status.
func (f *fixture) until(key, status string) got {
	f.t.Helper()
	end := time.Now().Add(10 * time.Second)
	for {
		g := f.inquire(key)
		if g.reply.Status == status {
			return g
		}
		if time.Now().After(end) {
			f.t.Fatalf("inquiry of %s never said %s, at last %v", key, status, g)
		}
	}
}

// ledger checks how many executions and refusals the ledger holds, and that all lines have memory's agreement.
func (f *fixture) ledger(executed, refused int) Summary {
	f.t.Helper()
	records, err := f.bank.Records()
	if err != nil {
		f.t.Fatal(err)
	}
	s := Summarise(records)
	if s.Executed != executed || s.Refused != refused {
		f.t.Errorf("ledger has %d executed and %d refused, want %d and %d", s.Executed, s.Refused, executed, refused)
	}
	return s
}

// want checks an answer of the bank's.
func (f *fixture) want(g got, status int, word string) {
	f.t.Helper()
	if g.err != nil || g.status != status || (g.reply.Status != word && g.reply.Code != word) {
		f.t.Errorf("got %v, want %d %s", g, status, word)
	}
}

func order1(reference, amount, debtor, creditor string) string {
	return fmt.Sprintf(`{"reference":%q,"amount":%q,"currency":"EUR","debtor":{"account":%q,"name":"Ann"},"creditor":{"account":%q},"purpose":{"code":"SALA"}}`,
		reference, amount, debtor, creditor)
}

func simple(reference string) string { return order1(reference, "10.50", "A", "B") }

func TestPaymentMovesMoney(t *testing.T) {
	f := start(t, Config{})
	g := f.pay("k1", order1("r1", "10.5", "A", "B"))
	f.want(g, http.StatusCreated, "EXECUTED")
	if g.reply.ID != "RS000000000001" || g.reply.Reference != "r1" {
		t.Errorf("got %v", g)
	}
	f.want(f.pay("k2", order1("r2", "0.07", "B", "C")), http.StatusCreated, "EXECUTED")
	want := "A -10.50, B 10.43, C 0.07"
	var have []string
	for _, a := range f.bank.Accounts() {
		have = append(have, a.Number+" "+a.Balance)
	}
	if s := strings.Join(have, ", "); s != want {
		t.Errorf("balances %s, want %s", s, want)
	}
	records, err := f.bank.Executions()
	if err != nil || len(records) != 2 {
		t.Fatalf("%d executions, %v", len(records), err)
	}
	r := records[0]
	if r.Key != "k1" || r.Reference != "r1" || r.Amount != "10.50" || r.Currency != "EUR" || r.Debtor != "A" ||
		r.Creditor != "B" || len(r.BodySHA256) != 64 || r.Time.IsZero() {
		t.Errorf("record %+v", r)
	}
	if s := f.bank.Summary(); s.ExecutedAmounts["EUR"] != "10.57" || s.DistinctReferences != 2 || s.Doubled != 0 {
		t.Errorf("summary %+v", s)
	}
}

func TestBusinessRefusals(t *testing.T) {
	f := start(t, Config{})
	for i, c := range []struct{ debtor, creditor, code string }{
		{"A", "CLOSED", "AC04"},
		{"A", "BLOCKED", "AC06"},
		{"A", "UNKNOWN", "AC01"},
		{"CLOSED", "B", "AC04"},
		{"POOR", "B", "AM04"},
	} {
		key := fmt.Sprintf("k%d", i)
		g := f.pay(key, order1(key, "1.00", c.debtor, c.creditor))
		f.want(g, http.StatusUnprocessableEntity, c.code)
		if g.reply.Status != "REFUSED" || g.reply.Message == "" {
			t.Errorf("%s: %v", c.code, g)
		}
		f.want(f.inquire(key), http.StatusOK, "REFUSED")
	}
	f.want(f.pay("p", order1("p", "1.00", "A", "POOR")), http.StatusCreated, "EXECUTED")
	f.ledger(1, 5)
}

func TestInvalidPaymentsAreTurnedAway(t *testing.T) {
	f := start(t, Config{MaxBodyBytes: 1000})
	for _, c := range []struct {
		name, key, body string
		status          int
		code            string
	}{
		{"no key", "", simple("r"), 400, "KEY_INVALID"},
		{"long key", strings.Repeat("k", 256), simple("r"), 400, "KEY_INVALID"},
		{"control in key", "k\tk", simple("r"), 400, "KEY_INVALID"},
		{"no JSON", "k", "hello", 400, "INVALID"},
		{"number as amount", "k", `{"reference":"r","amount":10.5,"currency":"EUR","debtor":{"account":"A"},"creditor":{"account":"B"}}`, 400, "INVALID"},
		{"no reference", "k", simple(""), 400, "INVALID"},
		{"no creditor", "k", order1("r", "1.00", "A", ""), 400, "INVALID"},
		{"zero", "k", order1("r", "0.00", "A", "B"), 400, "INVALID"},
		{"too precise", "k", order1("r", "1.001", "A", "B"), 400, "INVALID"},
		{"too large", "k", simple(strings.Repeat("r", 1000)), 413, "TOO_LARGE"},
	} {
		g := f.do(t.Context(), http.MethodPost, "/payments", c.body, "Idempotency-Key", c.key)
		if g.status != c.status || g.reply.Code != c.code {
			t.Errorf("%s: got %v, want %d %s", c.name, g, c.status, c.code)
		}
	}
	f.ledger(0, 0)
	if s := f.bank.RequestSummary(); s.Rejected != 10 || s.Payments != 0 {
		t.Errorf("requests %+v", s)
	}
	f.want(f.pay(strings.Repeat("k", 255), simple("r")), http.StatusCreated, "EXECUTED")
}

// Fifty callers with one key: one execution, and every caller gets the stored answer or is told to wait.
func TestOneKeyManyCallers(t *testing.T) {
	f := start(t, Config{Faults: []Fault{{Kind: DelayBefore, Probability: 1, DelayMS: 30}}})
	var wg sync.WaitGroup
	answers := make([]got, 50)
	for i := range answers {
		wg.Go(func() { answers[i] = f.pay("k", simple("r")) })
	}
	wg.Wait()
	first, inFlight := 0, 0
	for _, g := range answers {
		switch {
		case g.status == http.StatusCreated && g.header.Get("Idempotent-Replayed") == "":
			first++
		case g.status == http.StatusCreated:
		case g.status == http.StatusConflict && g.reply.Code == "IN_FLIGHT":
			inFlight++
		default:
			t.Errorf("got %v", g)
		}
	}
	if first != 1 || inFlight == 0 {
		t.Errorf("%d first answers, %d in flight", first, inFlight)
	}
	f.ledger(1, 0)
	if s := f.bank.RequestSummary(); s.MaxSends != 50 || s.Keys != 1 || s.ResentKeys != 1 || s.ChangedKeys != 0 {
		t.Errorf("requests %+v", s)
	}
}

func TestBounds(t *testing.T) {
	f := start(t, Config{MaxPayments: 2, MaxRequests: 3})
	f.want(f.pay("k1", simple("r1")), http.StatusCreated, "EXECUTED")
	f.want(f.pay("k2", simple("r2")), http.StatusCreated, "EXECUTED")
	f.want(f.pay("k3", simple("r3")), http.StatusServiceUnavailable, "FULL")
	f.want(f.pay("k2", simple("r2")), http.StatusCreated, "EXECUTED")
	f.ledger(2, 0)
	seen := f.bank.Requests()
	if len(seen) != 3 || seen[0].Key != "k2" || seen[2].Attempt != 2 || seen[2].N != 4 {
		t.Errorf("requests %+v", seen)
	}
	if s := f.bank.RequestSummary(); s.Payments != 4 || s.Forgotten != 1 {
		t.Errorf("summary %+v", s)
	}
}

func TestConfigurationErrorsComeTogether(t *testing.T) {
	_, err := New(Config{
		KeyWindow: -1,
		Mode:      "later",
		Callback:  Callback{URL: "nowhere"},
		Faults: []Fault{{Kind: "explode"}, {Kind: DelayAfter, Probability: 2},
			{Kind: HangAccept, Match: Match{KeyPrefix: "k"}}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"ledger path", "key window", "later", "absolute", "whsec_", "explode", "probability",
		"delay_ms is missing", "matched by nth"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no word of %q in: %v", part, err)
		}
	}
}
