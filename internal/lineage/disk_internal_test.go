package lineage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// disk notes what is made durable, and in which state of the folder.
type disk struct {
	mu    sync.Mutex
	said  []string
	hangs chan struct{} // nil: it does not hang
	fails bool
}

func (d *disk) flush(file *os.File) error {
	d.mu.Lock()
	hangs, fails := d.hangs, d.fails
	about, err := file.Stat()
	if err != nil {
		return err
	}
	names, err := os.ReadDir(filepath.Dir(file.Name()))
	if about.IsDir() {
		names, err = os.ReadDir(file.Name())
	}
	var there []string
	for _, each := range names {
		there = append(there, each.Name())
	}
	d.said = append(d.said, fmt.Sprintf("%s (%t): %s", filepath.Base(file.Name()), about.Size() > 0,
		strings.Join(there, " ")))
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	if fails {
		return errors.Join(err, errors.New("no space"))
	}
	return err
}

func (d *disk) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.said)
}

var known = outbox.Server{SystemIdentifier: "7", Timeline: 1, Now: time.Unix(9, 0)}

// onDisk returns a guard that is on a server it knows, with a disk of the test.
func onDisk(t *testing.T, log *slog.Logger) (*Guard, *disk, string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "relayer.json")
	g, err := New(Config{Name: "relayer-1", File: file}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{}
	g.flush = d.flush
	return g, d, file
}

func claims(n int) []payment.Claim {
	return []payment.Claim{{OutboxID: payment.ID{byte(n)}, AttemptNo: n, ClaimedAt: time.Unix(int64(n), 0)}}
}

// TestSavedBeforeItIsSent: what a claim is sent after is on the disk, file and name, so that a power cut takes back
// neither.
func TestSavedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	g, d, file := onDisk(t, slog.New(slog.DiscardHandler))
	g.adopt(t.Context(), known, outbox.Suspension{}, false, finding{})
	g.Claimed(t.Context(), claims(1))
	want := []string{
		"relayer.json.new (true): relayer.json.new", "state (true): relayer.json",
		"relayer.json.new (true): relayer.json relayer.json.new", "state (true): relayer.json",
	}
	if got := d.all(); !slices.Equal(got, want) {
		t.Errorf("made durable: %q, want %q", got, want)
	}
	memory, found, err := load(file)
	if err != nil || !found || memory.AttemptNo != 1 {
		t.Errorf("the file has %+v, %t, %v", memory, found, err)
	}
	// Claims that follow at once are saved together.
	for n := range 5 {
		g.Claimed(t.Context(), claims(n+2))
	}
	if got := d.all(); len(got) > 6 {
		t.Errorf("made durable for each claim: %q", got)
	}
}

// TestHungDisk: a disk that does not answer delays a claim, and answers of rails, for a while and once. That is logged,
// and so is its end.
func TestHungDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		g, d, _ := onDisk(t, slog.New(slog.NewTextHandler(&text, nil)))
		g.adopt(t.Context(), known, outbox.Suspension{}, false, finding{})
		goOn := make(chan struct{})
		d.hangs = goOn
		begun := time.Now()
		var both sync.WaitGroup
		for n := range 2 {
			both.Go(func() { g.Claimed(context.Background(), claims(n+1)) })
		}
		time.Sleep(saveWithin / 2)
		g.Beaten(1) // nothing else waits
		if g.Suspended() {
			t.Error("it is suspended")
		}
		if took := time.Since(begun); took != saveWithin/2 {
			t.Errorf("a heartbeat waits for the disk: %s", took)
		}
		both.Wait()
		if took := time.Since(begun); took != saveWithin {
			t.Errorf("a claim waits for %s, want %s", took, saveWithin)
		}
		for n := range 5 {
			time.Sleep(time.Second)
			g.Claimed(t.Context(), claims(n+2))
		}
		if took := time.Since(begun); took != saveWithin+5*time.Second {
			t.Errorf("each claim waits for the disk: %s", took)
		}
		d.mu.Lock()
		d.hangs = nil
		d.mu.Unlock()
		close(goOn)
		synctest.Wait()
		time.Sleep(time.Second)
		g.Claimed(t.Context(), claims(9))
		if n := strings.Count(text.String(), "can't be saved"); n != 1 || !strings.Contains(text.String(), "saved again") {
			t.Errorf("it was logged %d times:\n%s", n, &text)
		}
		if memory, _, err := load(g.config.File); err != nil || memory.AttemptNo != 9 {
			t.Errorf("the file has %+v, %v", memory, err)
		}
	})
}

// TestFailingDisk: a memory that can't be saved stops nothing, and the file stays what it was.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	g, d, file := onDisk(t, slog.New(slog.DiscardHandler))
	g.adopt(t.Context(), known, outbox.Suspension{}, false, finding{})
	d.fails = true
	g.Claimed(t.Context(), claims(1))
	if memory, found, err := load(file); err != nil || !found || memory.AttemptNo != 0 {
		t.Errorf("the file has %+v, %t, %v", memory, found, err)
	}
	if g.Unsaved() <= 0 {
		t.Error("it is not said that the memory is not saved")
	}
	d.fails = false
	g.adopt(t.Context(), outbox.Server{SystemIdentifier: "8", Timeline: 1, Now: time.Unix(9, 0)}, outbox.Suspension{},
		false, finding{})
	if g.Unsaved() != 0 {
		t.Errorf("the memory is saved, and it is said not to be for %s", g.Unsaved())
	}
}

// TestFullDiskAtTheStart: a folder on a full disk takes an empty file, and no memory.
func TestFullDiskAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "relayer.json")
	if err := os.Symlink("/dev/full", file+".probe"); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Name: "relayer-1", File: file}, nil, slog.New(slog.DiscardHandler)); !ErrBadMemory(err) {
		t.Errorf("it starts: %v", err)
	}
	if _, err := os.Lstat(file + ".probe"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the probe is left: %v", err)
	}
	if _, err := New(Config{Name: "relayer-1", File: file}, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}
