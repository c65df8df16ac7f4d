package service

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// hungDisk reads files, but for one at most that does not answer until it is released.
type hungDisk struct {
	name     atomic.Pointer[string]
	released chan struct{}
}

func (d *hungDisk) read(name string) ([]byte, error) {
	if hung := d.name.Load(); hung != nil && *hung == name {
		<-d.released
	}
	return readFile(name)
}

// TestHungFileOfTLS: a file whose disk does not answer is named, leaves the others in force and read, and keeps no
// process from stopping or from saying why it does not start.
func TestHungFileOfTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		w, disk := newTLSWorld(t), &hungDisk{released: make(chan struct{})}
		before, after := issue(t, now, now.Add(time.Hour), nil), issue(t, now, now.Add(time.Hour), nil)
		w.server(issue(t, now, now.Add(time.Hour), nil))
		w.write(w.files.ClientCA, before.certificate())
		log := slog.New(slog.NewTextHandler(&w.log, nil))
		kept, err := openTLS(w.files, disk.read, log)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- kept.Watch(ctx) }()

		disk.name.Store(&w.files.Key)
		w.write(w.files.ClientCA, after.certificate())
		pass(3 * time.Second)
		if w.trusts(kept, before) || !w.trusts(kept, after) {
			t.Error("a key that can't be read keeps a client CA from being read")
		}
		pass(2 * time.Minute)
		if !w.trusts(kept, after) || unread(kept, "client_ca") > 0 {
			t.Errorf("a key that can't be read ends the trust in client certificates: %v", kept.Files())
		}
		if err := kept.Err(); err == nil || !strings.Contains(err.Error(), w.files.Key) || unread(kept, "certificate") == 0 {
			t.Errorf("it says %v, %v", err, kept.Files())
		}
		if n := strings.Count(w.log.String(), "\n"); n != 1 || !strings.Contains(w.log.String(), "has not answered") {
			t.Errorf("it logs %d lines:\n%s", n, &w.log)
		}
		if _, err := openTLS(w.files, disk.read, log); err == nil || time.Since(now) > 3*time.Minute {
			t.Errorf("a process that starts says %v, after %s", err, time.Since(now))
		}
		stop()
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("it does not stop")
		}
		close(disk.released)
		synctest.Wait()
	})
}

// TestHungClientCA: client certificates are trusted for a minute by a file whose disk does not answer.
func TestHungClientCA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		w, disk := newTLSWorld(t), &hungDisk{released: make(chan struct{})}
		people := issue(t, now, now.Add(time.Hour), nil)
		w.server(issue(t, now, now.Add(time.Hour), nil))
		w.write(w.files.ClientCA, people.certificate())
		kept, err := openTLS(w.files, disk.read, slog.New(slog.NewTextHandler(&w.log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		go kept.Watch(t.Context())
		disk.name.Store(&w.files.ClientCA)
		pass(50 * time.Second)
		if !w.trusts(kept, people) || kept.Err() == nil || unread(kept, "client_ca") == 0 {
			t.Errorf("after 50 s it says %v, %v", kept.Err(), kept.Files())
		}
		pass(15 * time.Second)
		if w.trusts(kept, people) {
			t.Error("after 65 s client certificates are trusted")
		}
		disk.name.Store(nil)
		close(disk.released)
		pass(3 * time.Second)
		if !w.trusts(kept, people) || kept.Err() != nil || strings.Count(w.log.String(), "\n") != 2 {
			t.Errorf("of a disk that answers again it says %v:\n%s", kept.Err(), &w.log)
		}
	})
}

// TestStopWhileAFileHangs stops while the key is a pipe that has no writer, which hangs as such a disk does.
func TestStopWhileAFileHangs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := newTLSWorld(t)
	w.files.ClientCA = ""
	w.server(issue(t, now.Add(-time.Hour), now.Add(time.Hour), nil))
	kept, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.files.Key); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(w.files.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), readEvery+time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- kept.Watch(ctx) }()
	select {
	case <-ended:
	case <-time.After(readEvery + 10*time.Second):
		t.Error("it does not stop")
	}
	writer, err := os.OpenFile(w.files.Key, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("the pipe was not being read: %v", err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
}
