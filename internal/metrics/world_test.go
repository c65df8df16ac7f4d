package metrics_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/ingest/webhook"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/noop"
	"github.com/railhead-pay/railhead/reaper"
	"github.com/railhead-pay/railhead/relayer"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a cell with a relayer, a reaper and the receiver's metrics in one
// process, as they are wired there.
type world struct {
	t    *testing.T
	cell *celltest.Cell
	url  string // of /metrics
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cell: celltest.New(t)}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	set := metrics.New("v1", "relayer", "reaper", "callbacks", "api", "events")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	run := func(what string, do func(context.Context) error) {
		all.Go(func() {
			if err := do(ctx); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}

	budget := outbox.DefaultTimeBudget()
	budget.ClaimTimeout, budget.Drain, budget.HeartbeatStale = time.Minute, 10*time.Second, 10*time.Second
	w.cell.SetTimeBudget(budget)
	forRelayer, forReaper := w.executor(celltest.Relayer), w.executor(celltest.Reaper)
	notifier, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema},
		forRelayer, log)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := relayer.New(relayer.Config{
		WorkerID: "relayer-1", Poll: 50 * time.Millisecond, HeartbeatEvery: 100 * time.Millisecond,
		NotifierTestEvery: 100 * time.Millisecond,
	}, forRelayer, notifier, func(p rails.Profile) (rails.Rail, error) { return noop.Open(p) }, set.Relayer(), log)
	if err != nil {
		t.Fatal(err)
	}
	set.Watch(sender)
	repairer, err := reaper.New(reaper.Config{WorkerID: "reaper-1", Every: 50 * time.Millisecond},
		forReaper, set.Reaper(), log)
	if err != nil {
		t.Fatal(err)
	}
	var _ callback.Observer = set.Callbacks([]string{celltest.Bank})
	var _ api.Observer = set.API()
	for _, listener := range []string{"api", "console"} {
		set.TLS(listener, func() []service.TLSFile {
			return []service.TLSFile{{File: "certificate"}, {File: "client_ca", FirstEnds: time.Now()}}
		})
	}
	for _, component := range []string{"relayer", "reaper", "callbacks"} {
		set.Unsaved(component, func() time.Duration { return 0 })
	}
	var _ webhook.Observer = set.Webhooks(webhook.File{Endpoints: []webhook.Endpoint{{ID: "shop"}}})
	reader, err := reader.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema,
		MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	database, err := set.Database(metrics.DatabaseConfig{
		Every: 50 * time.Millisecond, SizeLimit: 1 << 40,
	}, reader, log)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(set.Handler(log))
	t.Cleanup(server.Close)
	w.url = server.URL
	run("relayer", sender.Run)
	run("reaper", repairer.Run)
	run("database", func(ctx context.Context) error { database.Run(ctx); return nil })
	return w
}

func (w *world) executor(login string) *executor.Executor {
	w.t.Helper()
	one, err := executor.Open(w.t.Context(), ledger.Config{URL: w.cell.URL(login), Cell: w.cell.Schema})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(one.Close)
	return one
}

func (w *world) enqueue(n int) {
	w.t.Helper()
	ingest, err := ingest.Open(w.t.Context(), ledger.Config{URL: w.cell.URL(celltest.Ingest), Cell: w.cell.Schema})
	if err != nil {
		w.t.Fatal(err)
	}
	defer ingest.Close()
	for i := range n {
		_, err := ingest.Enqueue(w.t.Context(), payment.Instruction{
			InstructionID: fmt.Sprintf("i-%d", i), ParticipantID: "p", IdempotencyKey: "k", RailType: celltest.Bank,
			Payload: []byte(`{"amount":"1","currency":"EUR"}`),
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// scrape reads /metrics in a format.
func (w *world) scrape(accept string) exposition {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s, %v: %s", answer.Status, err, text)
	}
	return parse(w.t, string(text))
}

// await scrapes until what it looks for is there.
func (w *world) await(check func(exposition) error) exposition {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		e := w.scrape("text/plain")
		err := check(e)
		if err == nil {
			return e
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatal(err)
		}
	}
}

// exposition is one scrape.
type exposition struct {
	text    string
	types   map[string]string  // by family
	samples map[string]float64 // by name and labels, as written
}

var sampleShape = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^}]*\})?) (\S+)`)

func parse(t *testing.T, text string) exposition {
	t.Helper()
	e := exposition{text: text, types: map[string]string{}, samples: map[string]float64{}}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			e.types[name] = kind
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := sampleShape.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("no sample: %s", line)
		}
		var value float64
		if _, err := fmt.Sscan(parts[2], &value); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e.samples[parts[1]] = value
	}
	return e
}

// want compares samples.
func (e exposition) want(samples map[string]float64) error {
	for name, want := range samples {
		if got, ok := e.samples[name]; !ok || got != want {
			return fmt.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	return nil
}

// documented is one line of the catalogue.
type documented struct {
	kind   string
	labels map[string][]string // values, where they are listed
}

var codeShape = regexp.MustCompile("`([^`]+)`")

// catalogue reads the tables of docs/metrics.md.
func catalogue(t *testing.T) map[string]documented {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]documented{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 7 || !strings.HasPrefix(line, "| `") {
			continue
		}
		name := codeShape.FindStringSubmatch(cells[1])[1]
		if _, twice := all[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		all[name] = documented{kind: strings.TrimSpace(cells[2]), labels: labelsOf(cells[3])}
	}
	return all
}

// labelsOf reads "`rail`, `state` = `a`, `b`": a word before = is a label, those
// after it are its values; "the 12 states" and "as other" list none.
func labelsOf(text string) map[string][]string {
	labels := map[string][]string{}
	for part := range strings.SplitSeq(text, ";") {
		names, values, listed := strings.Cut(part, "=")
		label := ""
		for _, name := range codeShape.FindAllStringSubmatch(names, -1) {
			if name[1] != "*" {
				label = name[1]
				labels[label] = nil
			}
		}
		if listed && !strings.Contains(values, "as `") {
			for _, value := range codeShape.FindAllStringSubmatch(values, -1) {
				labels[label] = append(labels[label], value[1])
			}
		}
	}
	return labels
}
