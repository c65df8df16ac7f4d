package await

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// TestOutcomesBehindAPooler: a session through a pooler, through which no notification may come, makes no wait for an
// outcome longer, and is logged once. A direct one is relied on.
func TestOutcomesBehindAPooler(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	direct := cell.URL(celltest.Ingest)
	listen := func(url string, ends func(o *Outcomes, logged string) bool) (o *Outcomes, logged func() string) {
		t.Helper()
		var buffer safeBuffer
		db, err := store.Open(t.Context(), ledger.Config{URL: url, Cell: cell.Schema, MaxConns: 1,
			Log: slog.New(slog.NewTextHandler(&buffer, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Pool.Close)
		o = NewOutcomes(db)
		t.Cleanup(o.Close)
		o.subscribe(payment.NewID())
		for end := time.Now().Add(20 * time.Second); !ends(o, buffer.text()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("through %s nothing listens: %s", url, buffer.text())
			}
		}
		return o, buffer.text
	}
	const said = "a pooler is in between"
	pooled, logged := listen(pgtest.LikePooler(t, direct), func(o *Outcomes, logged string) bool {
		return strings.Contains(logged, said) || o.isComplete()
	})
	if pooled.isComplete() || strings.Count(logged(), said) != 1 {
		t.Errorf("behind a pooler a session is relied on: %s", logged())
	}
	pooled.Close()
	if _, logged := listen(direct, func(o *Outcomes, _ string) bool { return o.isComplete() }); logged() != "" {
		t.Errorf("a direct session: %s", logged())
	}
}

type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (s *safeBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(b)
}

func (s *safeBuffer) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.String()
}
