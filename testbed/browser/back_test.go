package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// refused enqueues instructions that the rail refuses for good.
func refused(t *testing.T, cell *celltest.Cell, n int) {
	t.Helper()
	config := ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema, Name: "ingest of a test"}
	store, err := ingest.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i := range n {
		_, err := store.Enqueue(t.Context(), payment.Instruction{
			InstructionID: "i" + strconv.Itoa(i), ParticipantID: "p1", IdempotencyKey: "k" + strconv.Itoa(i),
			RailType: celltest.Bank, Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	config.URL = cell.URL(celltest.Relayer)
	works, err := executor.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer works.Close()
	taken, err := works.Turn(t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "relayer-1",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: n, Oldest: n,
			ProfileVersion: cell.ProfileInForce(celltest.Bank), RenderVersion: "r1"}},
	}})
	if err != nil || len(taken.Claims) != n {
		t.Fatalf("%d claims, %v", len(taken.Claims), err)
	}
	var outcomes []payment.Outcome
	for _, claim := range taken.Claims {
		answer := payment.Answer{Result: payment.ResultRefusedFinal, Elapsed: time.Millisecond}
		outcomes = append(outcomes, payment.Outcome{
			AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: payment.ResultRefusedFinal,
			Decision: payment.Policy{}.WithDefaults().Decide(claim, answer), RailCode: "AC04", CodeTable: "iso20022@1",
			WorkerID: "relayer-1", ProfileVersion: 1, RenderVersion: "r1",
		})
	}
	if _, err := works.Turn(t.Context(), outbox.Turn{Outcomes: outcomes}); err != nil {
		t.Fatal(err)
	}
}

// serve runs a console with the acts of operators on a cell. It returns what it acts by, and a link that logs in to it.
func serve(t *testing.T, cell *celltest.Cell) (acting *operator.Operator, link string) {
	t.Helper()
	config := ledger.Config{URL: cell.URL(celltest.Operator), Cell: cell.Schema, Name: "console of a test"}
	acting, err := operator.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(acting.Close)
	config.URL = cell.URL(celltest.Readonly)
	reading, err := reader.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reading.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	login := console.NewLink(console.Operate)
	site, err := console.New(console.Config{Cell: cell.Schema}, []console.Login{login}, reading, acting,
		func() (net.Listener, error) { return listener, nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- site.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the console ended with %v", err)
		}
	})
	return acting, login.Address("http://" + listener.Addr().String())
}

// Scripts for a page: change fills in every field of it, and restored names those that are not as the server sent them.
const (
	change = `[...document.querySelectorAll("input:not([type=hidden]), select, textarea")].map((e) => {
  if (/checkbox|radio/.test(e.type)) e.checked = !e.defaultChecked;
  else if (e.type === "date") e.value = "2026-11-27";
  else if (e.tagName === "SELECT") e.selectedIndex = e.options.length - 1;
  else e.value = "typed";
  return e.name }).length`
	restored = `[...document.querySelectorAll("input:not([type=hidden]), select, textarea")].filter((e) =>
  /checkbox|radio/.test(e.type) ? e.checked !== e.defaultChecked
  : e.tagName === "SELECT" ? e.selectedIndex > 0 && !e.selectedOptions[0].defaultSelected
  : e.value !== e.defaultValue).map((e) => e.name + "=" + e.value)`
)

// TestBackBringsNoInput: a page that the browser fetches anew when it goes back shows none of what was ticked and typed
// before: that was for rows, a suspension and a mark of a payment that may be others by now.
func TestBackBringsNoInput(t *testing.T) {
	t.Parallel()
	b := start(t)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprint(w, `<!doctype html><title>bare</title><form method="post"><input name="text"></form>`)
	}))
	t.Cleanup(bare.Close)
	for name, scripts := range map[string]Scripts{"with scripts": WithScripts, "without scripts": WithoutScripts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			back(t, b, bare.URL, scripts)
		})
	}
}

func back(t *testing.T, b *Browser, bare string, scripts Scripts) {
	cell := celltest.New(t)
	refused(t, cell, 5)
	acting, link := serve(t, cell)
	base, _, _ := strings.Cut(link, "/login/")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tab, err := b.Open(View{Scripts: scripts})
	must(err)
	defer tab.Close()
	visit := func(address, path string) (fields int, kept []string) {
		t.Helper()
		_, err := tab.Go(address + path)
		must(err)
		fields, err = ask[int](tab, change)
		must(err)
		_, err = tab.Go(address + "/runbooks/RailheadSuspensionOpen")
		must(err)
		must(tab.Back())
		if at, err := tab.Path(); err != nil || at != path {
			t.Fatalf("back at %s, %v", at, err)
		}
		kept, err = ask[[]string](tab, restored)
		must(err)
		return fields, kept
	}
	if _, kept := visit(bare, "/"); !slices.Equal(kept, []string{"text=typed"}) {
		t.Errorf("this browser restores %q where nothing forbids it: the test sees nothing", kept)
	}
	_, err = tab.Go(link)
	must(err)
	_, err = tab.Send(Mouse{}, "main form", "", nil)
	must(err)
	must(tab.Arrives(t.Context(), "/"))

	_, err = tab.Go(base + "/dead-letters")
	must(err)
	ids, err := ask[[]string](tab, `[...document.querySelectorAll("tbody input[type=checkbox]")].map((e) => e.value)`)
	must(err)
	for _, one := range ids[1:3] {
		must(Mouse{}.Press(tab, `input[type=checkbox][value="`+one+`"]`))
	}
	_, err = Mouse{}.Follow(tab, `main a[href="/payments/`+ids[2]+`"]`)
	must(err)
	// Another operator closes the first one, so that others are at the places of those that are ticked.
	closed, err := payment.ParseID(ids[0])
	must(err)
	_, err = acting.TriageDeadLetter(t.Context(), closed, operator.Close, "not wanted")
	must(err)
	must(tab.Back())
	ticked, err := ask[[]string](tab, `[...document.querySelectorAll("input:checked")].map((e) => e.value)`)
	if err != nil || len(ticked) > 0 {
		t.Errorf("ticked %q, and after Back %q, %v", ids[1:3], ticked, err)
	}
	if scripts == WithScripts {
		// A browser that ticks all the same does so before it shows the page.
		count, err := ask[string](tab, `(() => { document.querySelector("tbody input[type=checkbox]").checked = true;
		  dispatchEvent(new Event("pageshow")); return document.getElementById("ticked").textContent })()`)
		if err != nil || count != "(1)" {
			t.Errorf("the page counts %q where one is ticked, %v", count, err)
		}
	}
	cell.Exec(`SELECT railhead.suspend_outbox('w', 'ROWS_MISSING', 'a test', clock_timestamp())`)
	for path, least := range map[string]int{
		"/dead-letters": 12, "/payments/" + ids[1]: 8, "/components": 3, "/rails/bank": 3, "/rails": 3,
		"/participant?id=p1": 3, "/payments": 8, "/audit/log": 5,
	} {
		if fields, kept := visit(base, path); fields < least || len(kept) > 0 {
			t.Errorf("%s: of %d fields these came back: %q", path, fields, kept)
		}
	}
}
