package railsim

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"net"
	"net/http"
	"path/filepath"
	"strings"
)

// BenchmarkPayments measures payments over 64 kept connections, each answered after its record is on disk. Client and
// bank share the machine.
func BenchmarkPayments(b *testing.B) {
	bank, err := New(Config{LedgerPath: filepath.Join(b.TempDir(), "ledger.jsonl")})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- bank.Serve(l) }()
	const conns = 64
	transport := &http.Transport{MaxIdleConnsPerHost: conns}
	client := &http.Client{Transport: transport}
	var n atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range conns {
		wg.Go(func() {
			for {
				i := n.Add(1)
				if i > int64(b.N) {
					return
				}
				req, err := http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+"/payments",
					strings.NewReader(simple(fmt.Sprintf("r%d", i))))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Idempotency-Key", fmt.Sprintf("k%d", i))
				res, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusCreated {
					b.Errorf("status %d, %v", res.StatusCode, err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payments/s")
	transport.CloseIdleConnections()
	if err := bank.Close(); err != nil {
		b.Error(err)
	}
	if err := <-served; err != nil {
		b.Error(err)
	}
	if s := bank.Summary(); s.Executed != b.N || s.Doubled != 0 {
		b.Errorf("summary %+v", s)
	}
}
