package service

import (
	stdlog "log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// failuresEvery is the time between two lines of the log about handshakes that failed.
const failuresEvery = time.Minute

// HandshakeLog returns the error log of an HTTP server. It logs handshakes of TLS that failed, one within a minute with
// the number of those since the one before, and drops all other lines: they have what clients sent.
func HandshakeLog(log *slog.Logger) *stdlog.Logger {
	return stdlog.New(&handshakes{log: log}, "", 0)
}

type handshakes struct {
	log *slog.Logger

	mu     sync.Mutex
	toldAt time.Time
	more   int // since then
}

// Write takes a line of the server.
func (h *handshakes) Write(line []byte) (int, error) {
	rest, failed := strings.CutPrefix(strings.TrimSpace(string(line)), "http: TLS handshake error from ")
	client, why, _ := strings.Cut(rest, ": ")
	// A probe of a balancer opens a connection and closes it.
	if !failed || why == "EOF" || strings.HasSuffix(why, "connection reset by peer") {
		return len(line), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more++; !h.toldAt.IsZero() && time.Since(h.toldAt) < failuresEvery {
		return len(line), nil
	}
	// What follows a parenthesis or a quotation mark is of the client.
	if end := strings.IndexAny(why, `("`); end >= 0 {
		why = strings.TrimSpace(why[:end])
	}
	h.log.Warn("a handshake of TLS failed", "client", client, "error", why[:min(len(why), 200)],
		"failures", h.more)
	h.toldAt, h.more = time.Now(), 0
	return len(line), nil
}
