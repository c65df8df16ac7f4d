package relayer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// hold stops lanes after the database went back in time. An asynchronous
// failover or a restore brings pending rows back whose claims, and whose sends,
// nobody remembers; on a rail that de-duplicates by key a re-send is harmless
// while the key window lasts, on any other it pays twice.
//
// The server's system identifier and timeline are kept in a file outside of the
// database, together with the last moment at which they were seen.
type hold struct {
	file string

	mu      sync.Mutex
	known   identity
	saved   time.Time
	server  payment.Server // that was seen last, and that held is about
	held    bool
	seenAgo time.Duration // at the change: how long before it the old server was last seen
	why     string
}

type identity struct {
	SystemIdentifier string    `json:"system_identifier"`
	Timeline         int64     `json:"timeline"`
	SeenAt           time.Time `json:"seen_at"`
}

// saveEvery bounds how old SeenAt in the file can be while all is well.
const saveEvery = 10 * time.Second

// see compares the server with the one that is remembered. Accepted asks
// whether a person has said that this one is right.
func (h *hold) see(server payment.Server, accepted func() (bool, error), log *slog.Logger) error {
	if h.file == "" {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known.SystemIdentifier == "" {
		if err := h.load(); err != nil {
			return err
		}
	}
	h.server = server // lanes that were allowed for another are claimed on no other
	now := identity{SystemIdentifier: server.SystemIdentifier, Timeline: server.Timeline, SeenAt: time.Now()}
	same := h.known.SystemIdentifier == now.SystemIdentifier && h.known.Timeline == now.Timeline
	switch {
	case h.known.SystemIdentifier == "" || same:
		h.held, h.why = false, ""
		return h.remember(now)
	case !h.held:
		h.held, h.seenAgo = true, now.SeenAt.Sub(h.known.SeenAt)
		h.why = fmt.Sprintf("the server was %s on timeline %d and is %s on timeline %d: a failover or a restore may have "+
			"brought sent payments back as unsent. Compare with the rails, then: railhead timeline accept --reason ...",
			h.known.SystemIdentifier, h.known.Timeline, now.SystemIdentifier, now.Timeline)
		log.Error("lanes held after a failover or a restore", "was_system", h.known.SystemIdentifier, "was_timeline", h.known.Timeline,
			"is_system", now.SystemIdentifier, "is_timeline", now.Timeline, "last_seen_ago", h.seenAgo.Round(time.Second))
	}
	// Asking may take long, and only one goroutine ever comes here.
	h.mu.Unlock()
	ok, err := accepted()
	h.mu.Lock()
	if err != nil || !ok {
		return err
	}
	log.Info("the new server was accepted by a person: lanes go on", "system", now.SystemIdentifier, "timeline", now.Timeline)
	h.held, h.why = false, ""
	return h.remember(now)
}

// allows reports whether a lane may be claimed. While held, only rails that
// de-duplicate by key are, and only if their key window covers the time since
// the old server was last seen.
func (h *hold) allows(policy payment.Policy) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.held || policy.MayResend(h.seenAgo+time.Since(h.known.SeenAt.Add(h.seenAgo)))
}

// on is the server that allows speaks of; zero while none was seen or none is
// remembered. Asked first, it can only be older than what allows says.
func (h *hold) on() payment.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server
}

func (h *hold) reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

// errBadState is a state file that says nothing about the server.
var errBadState = errors.New("the remembered server can't be read")

func (h *hold) load() error {
	text, err := os.ReadFile(h.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the first start: whatever server this is, is the right one
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBadState, err)
	}
	var known identity
	err = json.Unmarshal(text, &known)
	if err == nil && (known.SystemIdentifier == "" || known.SeenAt.IsZero()) {
		err = errors.New("it names no server")
	}
	if err != nil {
		return fmt.Errorf("%w: %s is damaged (%w): after checking that this is the right server, remove the file", errBadState, h.file, err)
	}
	h.known = known
	return nil
}

func (h *hold) remember(now identity) error {
	if h.known.SystemIdentifier == now.SystemIdentifier && h.known.Timeline == now.Timeline && time.Since(h.saved) < saveEvery {
		h.known.SeenAt = now.SeenAt
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(h.file), 0o700); err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	draft := h.file + ".new"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	if err := os.Rename(draft, h.file); err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	h.known, h.saved = now, time.Now()
	return nil
}
