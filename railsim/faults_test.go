package railsim

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a client may see of a fault.
func sees(status int, word string) func(got) bool {
	return func(g got) bool {
		return g.err == nil && g.status == status && (word == "" || strings.Contains(string(g.body), word))
	}
}

func header(name, value string) func(got) bool {
	return func(g got) bool { return g.err == nil && g.header.Get(name) == value }
}

func cut(g got) bool { return errors.Is(g.err, io.EOF) || errors.Is(g.err, io.ErrUnexpectedEOF) }

func reset(g got) bool { return errors.Is(g.err, syscall.ECONNRESET) }

func timeout(g got) bool { return errors.Is(g.err, context.DeadlineExceeded) }

// paymentFaults says of every fault of a payment what the ledger must hold and what the client sees. First comes what
// must not be wrong: the money.
var paymentFaults = []struct {
	fault             Fault
	executed, refused int
	sees              func(got) bool
}{
	{Fault{Kind: HangAccept}, 0, 0, timeout},
	{Fault{Kind: HangUnread}, 0, 0, timeout},
	{Fault{Kind: StatusBefore}, 0, 0, sees(500, "FAULT")},
	{Fault{Kind: StatusBefore, Status: 401}, 0, 0, sees(401, "FAULT")},
	{Fault{Kind: StatusBefore, Status: 403}, 0, 0, sees(403, "FAULT")},
	{Fault{Kind: StatusBefore, Status: 404}, 0, 0, sees(404, "FAULT")},
	{Fault{Kind: StatusBefore, Status: 408}, 0, 0, sees(408, "FAULT")},
	{Fault{Kind: StatusBefore, Status: 429, RetryAfterS: 7}, 0, 0, header("Retry-After", "7")},
	{Fault{Kind: StatusBefore, Status: 502}, 0, 0, sees(502, "FAULT")},
	{Fault{Kind: StatusBefore, Status: 503, Code: "MAINT"}, 0, 0, sees(503, "MAINT")},
	{Fault{Kind: StatusBefore, Status: 504}, 0, 0, sees(504, "FAULT")},
	{Fault{Kind: StatusBefore, Status: 404, Plain: true}, 0, 0, sees(404, "<!DOCTYPE")},
	{Fault{Kind: StatusBefore, Status: 422, Word: "REFUSED", Code: "AB05"}, 0, 0, sees(422, "AB05")},
	{Fault{Kind: DropBefore}, 0, 0, cut},
	{Fault{Kind: ResetBefore}, 0, 0, reset},
	{Fault{Kind: HangBefore}, 0, 0, timeout},
	{Fault{Kind: HangBefore, DelayMS: 20}, 0, 0, cut},
	{Fault{Kind: RedirectBefore, URL: "http://127.0.0.1:1/x"}, 0, 0, sees(307, "")},
	{Fault{Kind: RedirectBefore, URL: "http://127.0.0.1:1/x", Status: 302}, 0, 0, header("Location", "http://127.0.0.1:1/x")},
	{Fault{Kind: DelayArrival, DelayMS: 20}, 1, 0, sees(201, "EXECUTED")},
	{Fault{Kind: DelayBefore, DelayMS: 20}, 1, 0, sees(201, "EXECUTED")},
	{Fault{Kind: DelayAfter, DelayMS: 20}, 1, 0, sees(201, "EXECUTED")},
	{Fault{Kind: Refuse, Code: "RR04"}, 0, 1, sees(422, "RR04")},
	{Fault{Kind: RefuseDrop}, 0, 1, cut},
	{Fault{Kind: DropAfter}, 1, 0, cut},
	{Fault{Kind: ResetAfter}, 1, 0, reset},
	{Fault{Kind: HangAfter}, 1, 0, timeout},
	{Fault{Kind: StatusAfter}, 1, 0, sees(500, "FAULT")},
	{Fault{Kind: StatusAfter, Status: 504}, 1, 0, sees(504, "FAULT")},
	{Fault{Kind: RedirectAfter, URL: "/elsewhere", Status: 308}, 1, 0, sees(308, "")},
	{Fault{Kind: HTMLAfter}, 1, 0, sees(200, "<html>")},
	{Fault{Kind: BadJSONAfter}, 1, 0, func(g got) bool { return g.status == 200 && g.reply == reply{} && len(g.body) > 0 }},
	{Fault{Kind: EmptyAfter}, 1, 0, func(g got) bool { return g.status == 200 && g.err == nil && len(g.body) == 0 }},
	{Fault{Kind: TruncatedAfter}, 1, 0, func(g got) bool { return g.status == 201 && cut(g) }},
	{Fault{Kind: ResentAfter}, 1, 0, func(g got) bool { return g.status == 201 && replayed(g) }},
	{Fault{Kind: WrongIDAfter}, 1, 0, sees(201, wrongID)},
	{Fault{Kind: AnotherIDAfter}, 1, 0, sees(201, formatID(1))},
	{Fault{Kind: WrongReferenceAfter}, 1, 0, sees(201, "r-other")},
	{Fault{Kind: HugeAfter, Bytes: 100 << 20}, 1, 0, func(g got) bool { return g.status == 200 && len(g.body) == 1<<20 }},
	{Fault{Kind: GzipBombAfter, Bytes: 100 << 20}, 1, 0, func(g got) bool {
		if g.status != 200 || g.header.Get("Content-Encoding") != "gzip" || g.err != nil || len(g.body) > 200<<10 {
			return false
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(g.body))
		if err != nil {
			return false
		}
		n, err := io.Copy(io.Discard, unpacked)
		return err == nil && n > 100<<20
	}},
	{Fault{Kind: DripHeadersAfter}, 1, 0, func(g got) bool { return timeout(g) && g.status == 0 }},
	{Fault{Kind: DripBodyAfter}, 1, 0, func(g got) bool { return timeout(g) && g.status == 201 }},
	{Fault{Kind: DripBodyAfter, DelayMS: 1}, 1, 0, sees(201, "EXECUTED")},
}

func TestFaultsTellTheTruthInTheLedger(t *testing.T) {
	for _, c := range paymentFaults {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			t.Parallel()
			c.fault.Probability = 1
			f := start(t, Config{Faults: []Fault{c.fault}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if g := f.post(ctx, "k", simple("r")); !c.sees(g) {
				t.Errorf("the client sees %v", g)
			}
			f.ledger(c.executed, c.refused)
			if s := f.bank.Faults(); s.Totals[c.fault.Kind] != 1 || s.Rules[0].Injected != 1 {
				t.Errorf("counters %+v", s)
			}

			// Without the fault, a re-send finds the truth, and a payment that never was goes through once.
			if err := f.bank.SetFaults(); err != nil {
				t.Fatal(err)
			}
			g := f.pay("k", simple("r"))
			if known := c.executed+c.refused > 0; replayed(g) != known {
				t.Errorf("re-send: %v", g)
			}
			f.ledger(1-c.refused, c.refused)
		})
	}
}

// A bank that was slow pays although the client left long ago.
func TestDelayedPaymentExecutesWithoutItsClient(t *testing.T) {
	for _, kind := range []FaultKind{DelayArrival, DelayBefore} {
		t.Run(string(kind), func(t *testing.T) {
			f := start(t, Config{Faults: []Fault{{Kind: kind, Probability: 1, DelayMS: 300}}})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if g := f.post(ctx, "k", simple("r")); !timeout(g) {
				t.Fatalf("got %v", g)
			}
			f.ledger(0, 0)
			meanwhile := map[FaultKind]string{DelayArrival: "NOT_FOUND", DelayBefore: "IN_PROGRESS"}[kind]
			if g := f.inquire("k"); g.reply.Status != meanwhile {
				t.Errorf("meanwhile: %v, want %s", g, meanwhile)
			}
			f.until("k", "EXECUTED")
			f.ledger(1, 0)
		})
	}
}

func TestAdminFaults(t *testing.T) {
	f := start(t, Config{Seed: 7})
	put := func(body string) got { return f.do(t.Context(), http.MethodPut, "/admin/faults", body) }
	f.want(put(`{"rules":[{"kind":"drop_after","probabilty":0.5}]}`), 400, "INVALID")
	f.want(put(`{"rules":[{"kind":"drop_afterwards"}]}`), 400, "INVALID")
	g := put(`{"rules":[{"kind":"status_before","match":{"key_prefix":"x"},"limit":2,"status":503}]}`)
	if g.status != 200 {
		t.Fatalf("got %v", g)
	}
	for range 3 {
		f.pay("x1", simple("x1"))
	}
	f.pay("y1", simple("y1"))
	g = f.do(t.Context(), http.MethodGet, "/admin/faults", "")
	const want = `{"seed":7,"rules":[{"kind":"status_before","probability":1,"match":{"key_prefix":"x"},"limit":2,"status":503,"matched":3,"injected":2}],"totals":{"status_before":2}}`
	if strings.TrimSpace(string(g.body)) != want {
		t.Errorf("got  %s\nwant %s", g.body, want)
	}
	if g := put(string(g.body)); g.status != 200 { // what is read can be written back
		t.Errorf("got %v", g)
	}
	f.ledger(2, 0)
	seen := f.bank.Requests()
	if len(seen) != 4 || len(seen[0].Faults) != 1 || seen[0].Faults[0] != StatusBefore || seen[2].Faults != nil ||
		seen[2].Attempt != 3 {
		t.Errorf("requests %+v", seen)
	}
}

// Every kind is described by shapeOf, named in the manual, and tried by some test.
func TestEveryKindIsKnownAndDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "faults.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[FaultKind]bool{}
	for _, c := range paymentFaults {
		tried[c.fault.Kind] = true
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "FaultKind" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		n++
		s, known := shapeOf(FaultKind(text))
		if !known {
			t.Errorf("%s has no shape", text)
		}
		if !strings.Contains(string(manual), text) {
			t.Errorf("%s is not in the manual", text)
		}
		if s.stage <= stagePayment && !tried[FaultKind(text)] {
			t.Errorf("%s is tried by no test", text)
		}
		return true
	})
	if n < 40 {
		t.Errorf("found only %d kinds", n)
	}
}
