package railsim

import (
	"io"
	"net/http"
	"os"
	"strconv"
)

// routes returns the handler of all endpoints. Credentials are required only under /payments. The
// other endpoints are for tests, and belong on a loopback address.
func (b *Bank) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", b.servePayment)
	mux.HandleFunc("GET /payments/by-key/{key}", b.serveInquiry)
	mux.HandleFunc("GET /payments/by-reference/{reference}", b.serveInquiry)
	mux.HandleFunc("GET /payments/by-id/{id}", b.serveInquiry)
	mux.HandleFunc("GET /ledger", b.serveLedger)
	mux.HandleFunc("GET /ledger/summary", func(w http.ResponseWriter,
		_ *http.Request) {
		writeJSON(w, http.StatusOK, b.Summary())
	})
	mux.HandleFunc("GET /requests", b.serveRequests)
	mux.HandleFunc("GET /accounts", func(w http.ResponseWriter,
		_ *http.Request) {
		writeJSON(w, http.StatusOK, b.Accounts())
	})
	mux.HandleFunc("GET /callbacks", func(w http.ResponseWriter,
		_ *http.Request) {
		writeJSON(w, http.StatusOK, b.Callbacks())
	})
	mux.HandleFunc("GET /healthz", b.serveHealth)
	mux.HandleFunc("GET /admin/faults", func(w http.ResponseWriter,
		_ *http.Request) {
		writeJSON(w, http.StatusOK, b.Faults())
	})
	mux.HandleFunc("PUT /admin/faults", b.servePutFaults)
	return b.counted(mux)
}

// counted makes Close wait for every request, including hijacked ones.
func (b *Bank) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		closed := b.ctx.Err() != nil
		if !closed {
			b.work.Add(1)
		}
		b.mu.Unlock()
		if closed {
			b.drop(w)
			return
		}
		defer b.work.Done()
		next.ServeHTTP(w, r)
	})
}

// serveLedger streams the durable part of the ledger as JSON lines.
func (b *Bank) serveLedger(w http.ResponseWriter, _ *http.Request) {
	f, length, err := b.openLedger()
	if err != nil {
		b.writeAnswer(w, problem(http.StatusInternalServerError, "LEDGER_BROKEN", err.Error()))
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	_, _ = io.CopyN(w, f, length)
}

// openLedger opens the ledger for reading and returns how many bytes of it are durable.
func (b *Bank) openLedger() (*os.File, int64, error) {
	// What was durable before the ledger broke stays true.
	length, _ := b.journal.length()
	f, err := os.Open(b.cfg.LedgerPath)
	return f, length, err
}

// serveRequests lists requests, newest last: all in memory, or those that match ?key= and
// ?reference=.
func (b *Bank) serveRequests(w http.ResponseWriter, r *http.Request) {
	key, reference := r.URL.Query().Get("key"), r.URL.Query().Get("reference")
	answer := struct {
		Summary  RequestSummary `json:"summary"`
		Requests []Request      `json:"requests"`
	}{Summary: b.RequestSummary(), Requests: []Request{}}
	for _, seen := range b.Requests() {
		if (key == "" || key == seen.Key) && (reference == "" || reference == seen.Reference) {
			answer.Requests = append(answer.Requests, seen)
		}
	}
	writeJSON(w, http.StatusOK, answer)
}

func (b *Bank) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if _, err := b.journal.length(); err != nil {
		b.writeAnswer(w, problem(http.StatusServiceUnavailable, "LEDGER_BROKEN", "the bank can't write its ledger"))
		return
	}
	writeJSON(w, http.StatusOK, reply{Status: "OK"})
}

// servePutFaults replaces the rules in force.
func (b *Bank) servePutFaults(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBytes))
	if err != nil {
		b.writeAnswer(w, problem(http.StatusBadRequest, "INCOMPLETE", err.Error()))
		return
	}
	rules, err := ParseFaults(body)
	if err == nil {
		err = b.SetFaults(rules...)
	}
	if err != nil {
		b.writeAnswer(w, problem(http.StatusBadRequest, "INVALID", err.Error()))
		return
	}
	writeJSON(w, http.StatusOK, b.Faults())
}
