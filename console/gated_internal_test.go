package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// slowReader has lists and searches that end with their context alone.
type slowReader struct {
	Reader
	status func(context.Context) (reader.Status, error)
}

func (s slowReader) List(ctx context.Context, _ reader.ListFilter) (reader.List, error) {
	<-ctx.Done()
	return reader.List{}, ctx.Err()
}

func (s slowReader) Status(ctx context.Context) (reader.Status, error) { return s.status(ctx) }

// page answers a request for a page by a person who may read.
func (c *Console) page(ctx context.Context, secret, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.AddCookie(c.cookie(secret))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

// TestSlowPagesLeaveTheState: slow pages have a bounded number of queries at once, each for a bounded time.
// Others are turned away soon, and the state of the cell is read all the same.
func TestSlowPagesLeaveTheState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := liveConsole(t, Config{})
		raw := slowReader{c.ungated, c.ungated.Status}
		c.ungated, c.reader = raw, newGated(raw)
		secret := c.sessions.begin(Person{Role: Read})
		answers := make(chan *httptest.ResponseRecorder, queriesMax)
		for range queriesMax {
			go func() { answers <- c.page(t.Context(), secret, "/payments") }()
		}
		synctest.Wait()
		begun := time.Now()
		turned := c.page(t.Context(), secret, "/payments")
		if turned.Code != http.StatusServiceUnavailable || turned.Header().Get("Retry-After") != "5" ||
			time.Since(begun) != queryWait {
			t.Errorf("status %d, retry after %q, after %s", turned.Code, turned.Header().Get("Retry-After"), time.Since(begun))
		}
		time.Sleep(time.Second)
		if c.state.last.Age() == 0 {
			t.Fatal("no time has passed since the state was read")
		}
		if err := c.refresh(t.Context()); err != nil || c.state.last.Age() != 0 {
			t.Errorf("the state was read %s ago, %v", c.state.last.Age(), err)
		}
		for range queriesMax {
			if answer := <-answers; answer.Code != http.StatusGatewayTimeout {
				t.Errorf("a slow page: status %d", answer.Code)
			}
		}
		if took := time.Since(begun); took != queryMax {
			t.Errorf("the slow pages took %s", took)
		}
	})
}

// TestStatementTookTooLong: a statement that the server ended is answered as a query that took too long.
func TestStatementTookTooLong(t *testing.T) {
	t.Parallel()
	c := liveConsole(t, Config{})
	w := httptest.NewRecorder()
	c.failed(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/payments", nil),
		fmt.Errorf("listing: %w", &pgconn.PgError{Code: "57014"}))
	if text := w.Body.String(); w.Code != http.StatusGatewayTimeout || !strings.Contains(text, "with a narrower filter") {
		t.Errorf("status %d: %s", w.Code, text)
	}
}

// TestReadingsAreInOrder: a reading that began earlier and took longer does not replace a later one, and the
// points of the charts are in order, whatever the database's clock does.
func TestReadingsAreInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := liveConsole(t, Config{})
		start, delay := time.Now(), 3*time.Second
		c.ungated = slowReader{c.ungated, func(context.Context) (reader.Status, error) {
			status := reader.Status{Now: time.Now()}
			time.Sleep(delay)
			return status, nil
		}}
		over := make(chan error, 1)
		go func() { over <- c.refresh(t.Context()) }()
		time.Sleep(time.Second)
		delay = 0
		if err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		if got := c.state.seen.Load().Now.Sub(start); got != 3*time.Second {
			t.Errorf("the state is that of %s after the start", got)
		}
		for _, after := range []time.Duration{10, 20, 30, 15, 16, 16} {
			c.state.add(reader.Status{Now: start.Add(after * time.Second)})
		}
		times := c.state.columns()[0]
		for n := 1; n < len(times); n++ {
			if times[n] <= times[n-1] {
				t.Errorf("the points are at %v", times)
			}
		}
		if got, want := times[len(times)-1], start.Add(16*time.Second).Unix(); got != want {
			t.Errorf("the newest point is at %d, want %d", got, want)
		}
	})
}
