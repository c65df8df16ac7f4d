package railsim

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestBenchEndpoints(t *testing.T) {
	requests := filepath.Join(t.TempDir(), "requests.jsonl")
	f := start(t, Config{RequestsPath: requests})
	f.pay("k1", simple("r1"))
	f.pay("k1", simple("r1"))
	f.pay("k2", order1("r2", "3.00", "A", "CLOSED"))
	f.inquire("k2")
	get := func(path string) got {
		t.Helper()
		g := f.do(t.Context(), http.MethodGet, path, "")
		if g.err != nil || g.status != http.StatusOK {
			t.Errorf("%s: %v", path, g)
		}
		return g
	}

	file, err := os.ReadFile(f.bank.cfg.LedgerPath)
	if err != nil {
		t.Fatal(err)
	}
	if g := get("/ledger"); string(g.body) != string(file) || strings.Count(string(file), "\n") != 2 {
		t.Errorf("ledger over HTTP:\n%s\nin the file:\n%s", g.body, file)
	}
	var summary Summary
	if err := json.Unmarshal(get("/ledger/summary").body, &summary); err != nil ||
		!reflect.DeepEqual(summary, f.ledger(1, 1)) {
		t.Errorf("summary %+v, %v", summary, err)
	}
	var accounts []Account
	if err := json.Unmarshal(get("/accounts").body, &accounts); err != nil || len(accounts) != 2 {
		t.Errorf("accounts %+v, %v", accounts, err)
	}
	get("/healthz")
	get("/callbacks")

	var listed struct {
		Summary  RequestSummary
		Requests []Request
	}
	if err := json.Unmarshal(get("/requests?key=k1").body, &listed); err != nil {
		t.Fatal(err)
	}
	if s := listed.Summary; s.Payments != 3 || s.Inquiries != 1 || s.Keys != 2 || s.MaxSends != 2 {
		t.Errorf("summary %+v", s)
	}
	if len(listed.Requests) != 2 {
		t.Fatalf("requests %+v", listed.Requests)
	}
	a, b := listed.Requests[0], listed.Requests[1]
	if a.BodySHA256 != b.BodySHA256 || a.Attempt != 1 || b.Attempt != 2 || a.Conn != 1 || b.Conn != 1 || a.Remote == "" ||
		a.Op != "payment" {
		t.Errorf("requests %+v", listed.Requests)
	}
	if err := json.Unmarshal(get("/requests?reference=r2").body, &listed); err != nil || len(listed.Requests) != 1 {
		t.Errorf("by reference %+v, %v", listed.Requests, err)
	}
	if lines, err := os.ReadFile(requests); err != nil || strings.Count(string(lines), "\n") != 4 {
		t.Errorf("request file, before the bank closes:\n%s (%v)", lines, err)
	}
}
