package api

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// TestProblemsHavePages: each type of problem has a page, and each page a type.
func TestProblemsHavePages(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "docs", "problems")
	named := map[string]bool{}
	for _, k := range kinds() {
		text, err := os.ReadFile(filepath.Join(folder, k.name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		named[k.name+".md"] = true
		if !strings.HasPrefix(string(text), "# "+k.title+"\n") {
			t.Errorf("%s.md does not begin with its title, %q", k.name, k.title)
		}
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range there {
		if !named[page.Name()] {
			t.Errorf("docs/problems/%s is of no type", page.Name())
		}
	}
}

// slowTokens is a store that has every token, and answers slowly.
type slowTokens struct {
	Store
	asked atomic.Int32
}

func (s *slowTokens) Token(context.Context, [32]byte) (outbox.Token, error) {
	s.asked.Add(1)
	time.Sleep(20 * time.Millisecond)
	return outbox.Token{InForce: true}, nil
}

// TestTokenIsLookedUpOnce tests that, of many concurrent calls with a token that is not cached, no
// more than the bound query the database.
func TestTokenIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowTokens{}
		known := newTokens(store, time.Minute)
		var all sync.WaitGroup
		for range 20 * lookupsMax {
			all.Go(func() {
				if _, err := known.find(t.Context(), [32]byte{1}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if asked := store.asked.Load(); asked > lookupsMax {
			t.Errorf("looked up %d times", asked)
		}
	})
}

func FuzzReadInstruction(f *testing.F) {
	for _, text := range []string{
		`{"instruction_id": "i", "participant_id": "p", "rail_type": "bank", "payload": {"amount": "1", "currency": "EUR"}, "idempotency_key": "k"}`,
		`{"priority": 1e0}`, `{"expires_at": "2026-01-01T00:00:00Z"}`, `{"payload": {"a": 1, "a": 2}}`,
		`{"x": "` + "\xff" + `"}`, "null", "[", `{"payload": null}`,
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, inBatch bool) {
		in, problem := readInstruction(text, inBatch)
		if problem != nil {
			if problem.Status < 400 || problem.Status > 422 || len(problem.Detail) > 300 {
				t.Errorf("%+v", problem)
			}
			return
		}
		if !inBatch && in.IdempotencyKey != "" {
			t.Errorf("a key in the body of a single call: %q", in.IdempotencyKey)
		}
		again, problem := readInstruction(text, inBatch)
		if problem != nil || again.InstructionID != in.InstructionID || string(again.Payload) != string(in.Payload) {
			t.Errorf("read as %+v and %+v", in, again)
		}
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("wait=5", "k", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
	f.Add("respond-async; x, WAIT = \"7\";foo", `"k"`, "00", ",")
	f.Add("wait=99999999999999999999", "", "", "")
	f.Fuzz(func(t *testing.T, prefer, key, parent, state string) {
		if wait := waitOf([]string{prefer}, 30*time.Second); wait < 0 || wait > 30*time.Second {
			t.Errorf("%q waits %s", prefer, wait)
		}
		if got, problem := keyOf([]string{key}); problem == nil && (got == "" || len(got) > len(key)) {
			t.Errorf("%q is the key %q", key, got)
		}
		for name, value := range traceOf(parent, state) {
			if name != "traceparent" && name != "tracestate" || len(value) > 1024 {
				t.Errorf("%q, %q: %s %q", parent, state, name, value)
			}
		}
	})
}
