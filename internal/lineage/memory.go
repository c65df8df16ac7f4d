package lineage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// How old the memory in the file may be: for claims, which are saved before they are sent,
// and for the rest.
const (
	saveClaimsEvery = 250 * time.Millisecond
	saveEvery       = 10 * time.Second
)

// load reads a memory; found is false if there is none yet.
func load(file string) (memory outbox.Remembered, found bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return memory, false, nil
	}
	if err != nil {
		return memory, false, fmt.Errorf("%w: RAILHEAD_STATE_DIR can't be read: %w", errBadMemory, err)
	}
	err = json.Unmarshal(text, &memory)
	if err == nil && (memory.SystemIdentifier == "" || memory.SeenAt.IsZero()) {
		err = errors.New("it has no server")
	}
	if err != nil {
		return outbox.Remembered{}, false, fmt.Errorf("%w: %s is damaged (%w): "+
			"after checking that this is the right server, and comparing with the rails, remove the file",
			errBadMemory, file, err)
	}
	return memory, true, nil
}

// writable returns an error if the memory could not be saved.
func writable(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("%w: making the folder of RAILHEAD_STATE_DIR: %w", errBadMemory, err)
	}
	probe := file + ".probe"
	err := os.WriteFile(probe, nil, 0o600)
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		return fmt.Errorf("%w: RAILHEAD_STATE_DIR can't be written to: %w", errBadMemory, err)
	}
	return nil
}

// remember sets the memory to the present server and what is confirmed, and saves it to the
// file every saveEvery. An error of the file is only logged, because answers of rails must
// still be recorded. It is called with mu held.
func (g *Guard) remember(ctx context.Context, server outbox.Server) {
	changed := !g.fresh || g.memory.SystemIdentifier != server.SystemIdentifier || g.memory.Timeline != server.Timeline
	g.memory, g.fresh = g.own, true
	g.memory.SystemIdentifier, g.memory.Timeline = server.SystemIdentifier, server.Timeline
	g.memory.LogPosition, g.memory.SeenAt = server.LogPosition, server.Now
	g.memory.AcceptedAt, g.memory.Accepted = server.AcceptedAt, nil
	for _, s := range server.Suspensions {
		if !s.Open() {
			g.memory.Accepted = append(g.memory.Accepted, s.ID)
		}
	}
	if changed || time.Since(g.saved) >= saveEvery {
		g.keep(ctx)
	}
}

// keep saves the memory. It is called with mu held.
func (g *Guard) keep(ctx context.Context) {
	if g.config.File == "" {
		return
	}
	err := save(g.config.File, g.memory)
	switch {
	case err != nil && !g.saveFailed:
		g.log.ErrorContext(ctx, "the memory of the server can't be saved: "+
			"a snapshot that is restored while this service is down would not be noticed", "error", err)
	case err == nil && g.saveFailed:
		g.log.InfoContext(ctx, "the memory of the server is saved again")
	}
	g.saveFailed, g.saved = err != nil, time.Now()
}

func save(file string, memory outbox.Remembered) error {
	text, err := json.Marshal(memory)
	if err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	draft := file + ".new"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	if err := os.Rename(draft, file); err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	return nil
}
