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
	"github.com/railhead-pay/railhead/payment"
)

// How old the memory in the file may be: for claims, which are saved before they are sent,
// and for the rest.
const (
	saveClaimsEvery = 250 * time.Millisecond
	saveEvery       = 10 * time.Second
	// saveWithin bounds the wait for the disk.
	saveWithin = 2 * time.Second
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

// probeBytes is more than a memory has.
const probeBytes = 16 << 10

// writable returns an error if the memory could not be saved: on a full disk only bytes fail, and no empty file.
func writable(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("%w: making the folder of RAILHEAD_STATE_DIR: %w", errBadMemory, err)
	}
	probe := file + ".probe"
	to, err := os.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = to.Write(make([]byte, probeBytes))
		err = errors.Join(err, to.Sync(), to.Close(), os.Remove(probe))
	}
	if err != nil {
		return fmt.Errorf("%w: RAILHEAD_STATE_DIR can't be written to: %w", errBadMemory, err)
	}
	return nil
}

// remember sets the memory to the present server and what is confirmed. It returns how old the memory in the
// file may be. It is called with mu held.
func (g *Guard) remember(server outbox.Server) (age time.Duration) {
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
	g.change++
	if changed {
		return 0
	}
	return saveEvery
}

// Claimed records the last of several claims that were confirmed together. It must be called
// before any of them is sent: unless the file had an earlier one less than saveClaimsEvery ago, it has this one then.
func (g *Guard) Claimed(ctx context.Context, claims []payment.Claim) {
	if len(claims) == 0 {
		return
	}
	last := &claims[len(claims)-1]
	var age time.Duration
	g.mu.Lock()
	if !g.own.OutboxID.IsZero() {
		age = saveClaimsEvery
	}
	g.own.OutboxID, g.own.AttemptNo, g.own.ClaimedAt = last.OutboxID, last.AttemptNo, last.ClaimedAt
	passed := g.passed
	if passed {
		g.memory.OutboxID, g.memory.AttemptNo, g.memory.ClaimedAt = last.OutboxID, last.AttemptNo, last.ClaimedAt
		g.change++
	}
	change := g.change
	g.mu.Unlock()
	if passed {
		g.keep(ctx, change, age)
	}
}

// keep returns once the file has a change of the memory, or what was the memory less than age ago.
// An error, or a disk that takes longer than saveWithin, is only logged, because answers of rails must still be
// recorded. It is called without mu held.
func (g *Guard) keep(ctx context.Context, change uint64, age time.Duration) {
	if g.config.File == "" {
		return
	}
	timer := time.NewTimer(saveWithin)
	defer timer.Stop()
	for {
		g.mu.Lock()
		if g.savedChange >= change || time.Since(g.saved) < age || g.stuck {
			g.mu.Unlock()
			return
		}
		if g.saving == nil {
			g.save(ctx)
		}
		saving := g.saving
		g.mu.Unlock()
		select {
		case <-saving:
		case <-timer.C:
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.saving == saving {
				g.stuck = true
				g.told(ctx, fmt.Errorf("the disk has not answered for %s", saveWithin))
			}
			return
		}
	}
}

// save begins to save the memory. It is called with mu held, and only one save is under way.
func (g *Guard) save(ctx context.Context) {
	memory, change, now, done := g.memory, g.change, time.Now(), make(chan struct{})
	g.saving = done
	go func() {
		err := write(g.config.File, memory, g.flush)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.saving, g.stuck, g.saved, g.savedChange = nil, false, now, change
		g.told(ctx, err)
		close(done)
	}()
}

// told logs that the memory can't be saved, and that it is saved again. It is called with mu held.
func (g *Guard) told(ctx context.Context, err error) {
	switch {
	case err != nil && !g.saveFailed:
		g.log.ErrorContext(ctx, "the memory of the server can't be saved: "+
			"a snapshot that is restored while this service is down would not be noticed", "error", err)
	case err == nil && g.saveFailed:
		g.log.InfoContext(ctx, "the memory of the server is saved again")
	}
	if err == nil {
		g.unsavedFrom = time.Time{}
	} else if !g.saveFailed {
		g.unsavedFrom = time.Now()
	}
	g.saveFailed = err != nil
}

// Unsaved returns for how long the memory could not be saved; 0: the last save went well, or there is no file. It is
// bounded by nothing: a guard goes on without its file.
func (g *Guard) Unsaved() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unsavedFrom.IsZero() {
		return 0
	}
	return max(time.Since(g.unsavedFrom), time.Millisecond)
}

// write replaces the file. What it returns for is on the disk, also after a power cut.
func write(file string, memory outbox.Remembered, flush func(*os.File) error) error {
	text, err := json.Marshal(memory)
	if err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	draft := file + ".new"
	to, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = to.Write(text)
		err = errors.Join(err, flush(to), to.Close())
	}
	if err == nil {
		err = os.Rename(draft, file)
	}
	if err == nil {
		err = flushFolder(filepath.Dir(file), flush)
	}
	if err != nil {
		return fmt.Errorf("writing the remembered server: %w", err)
	}
	return nil
}

// flushFolder makes the names in a folder durable.
func flushFolder(folder string, flush func(*os.File) error) error {
	names, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(flush(names), names.Close())
}
