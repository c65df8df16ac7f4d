package cells

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
)

// The rails. Banks that are shared by all cells stand behind them.
const (
	railCalls   = "provisional-same-unasked-each" // de-duplicates, and reports by callbacks
	railBare    = "final-never-asked-each"        // executes whatever it is sent
	railOrdered = "final-same-unasked-covers"     // de-duplicates, and keeps the order of each participant
)

var railTypes = []string{railCalls, railBare, railOrdered}

// spoiled are the faults of a bank, in a share of its work.
func spoiled(rail string) []railsim.Fault {
	all := []railsim.Fault{
		{Kind: railsim.DropAfter, Probability: 0.03}, {Kind: railsim.DropBefore, Probability: 0.02},
		{Kind: railsim.DelayAfter, Probability: 0.02, DelayMS: 1300},
	}
	switch rail {
	case railCalls:
		all = append(all, railsim.Fault{Kind: railsim.Refuse, Probability: 0.03},
			railsim.Fault{Kind: railsim.CallbackLate, Probability: 0.1, DelayMS: 3000},
			railsim.Fault{Kind: railsim.CallbackDuplicate, Probability: 0.1, Times: 2})
	case railBare:
		all = append(all, railsim.Fault{Kind: railsim.Refuse, Probability: 0.03})
	}
	return all
}

func (w *world) startBanks(context.Context) (err error) {
	if w.fan, err = newFan(); err != nil {
		return err
	}
	for _, shape := range simrail.Shapes() {
		if !slices.Contains(railTypes, shape.RailType()) {
			continue
		}
		bank, err := simrail.Start(shape, simrail.Options{
			Dir: w.Evidence, Seed: w.Seed, CallbackURL: w.fan.url(),
			Speed: simrail.Speed{
				Answer: time.Second, Settle: 50 * time.Millisecond, Callback: time.Minute, Ask: 300 * time.Millisecond,
				Inquiries: 20, NotFoundAge: 200 * time.Millisecond, Retry: 200 * time.Millisecond, Sends: 20, Concurrency: 16,
			},
		})
		if err != nil {
			return err
		}
		w.banks = append(w.banks, bank)
		if shape.RailType() == railOrdered {
			bank.Profile.Ordering = rails.Ordering{Order: rails.OrderStrict, OnBadEnd: rails.OnBadEndBlock}
		}
		if err := bank.SetFaults(spoiled(shape.RailType())...); err != nil {
			return err
		}
	}
	text, err := simrail.Text(w.banks...)
	if err != nil {
		return err
	}
	return os.WriteFile(w.railsFile(), text, 0o600)
}

// moved reads the ledgers of all banks.
func (w *world) moved() (all []railsim.Record, err error) {
	for _, bank := range w.banks {
		records, err := railsim.ReadLedger(bank.Ledger)
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// fan is the address that the bank reports to. It passes a report on to the receivers of the cells, one
// after the other, until one takes it: the bank does not know from which cell a payment came.
type fan struct {
	to       []string // files that have the addresses of receivers; complete before the first report
	listener net.Listener
	client   http.Client
}

// maxReport bounds a report, in bytes.
const maxReport = 64 << 10

func newFan() (*fan, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &fan{listener: listener, client: http.Client{Timeout: 3 * time.Second}}
	server := &http.Server{Handler: f, ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(listener) //nolint:errcheck // it ends with the listener
	return f, nil
}

func (f *fan) url() string { return "http://" + f.listener.Addr().String() }

func (f *fan) close() { f.listener.Close() }

// ServeHTTP answers 503 unless a receiver took the report, so that the bank repeats it.
func (f *fan) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReport))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, file := range f.to {
		addr, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		passed, err := http.NewRequestWithContext(r.Context(), r.Method,
			"http://"+strings.TrimSpace(string(addr))+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			continue
		}
		maps.Copy(passed.Header, r.Header)
		answer, err := f.client.Do(passed)
		if err != nil {
			continue
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusNoContent {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	http.Error(w, "no cell took it", http.StatusServiceUnavailable)
}
