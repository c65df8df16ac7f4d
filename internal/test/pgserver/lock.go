package pgserver

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrInUse means that a live process already runs a server on the data folder.
var ErrInUse = errors.New("data folder is in use")

const (
	tempPrefix = "rh-"   // temporary folders: rh-<random>
	ownerFile  = "owner" // inside a temporary folder: locked while its owner lives

	// creationGrace is how old a temporary folder without an owner file must be before it counts as a
	// leftover: between mkdir and the locked owner file a creator needs well under this.
	creationGrace = time.Minute
)

// fileLock is an flock. The kernel releases it when its process ends in any way, so holding it
// proves that the process lives, which a pid in a file does not (pids are reused).
type fileLock struct{ f *os.File }

// lockFile locks path exclusively without waiting, creating it if need be. The error is ErrInUse
// when another process holds it.
func lockFile(path string) (fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fileLock{}, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fileLock{}, ErrInUse
		}
		return fileLock{}, fmt.Errorf("locking %s: %w", path, err)
	}
	return fileLock{f}, nil
}

func (l fileLock) release() {
	if l.f != nil {
		l.f.Close()
	}
}

// makeTemp creates a temporary folder of acct below root and takes its owner lock. The lock file
// gets its name only once it is locked, so that a sweep never meets an unlocked one of a live
// owner.
func makeTemp(root string, acct account) (string, fileLock, error) {
	dir, err := os.MkdirTemp(root, tempPrefix+"*")
	if err != nil {
		return "", fileLock{}, err
	}
	pending := filepath.Join(dir, ownerFile+".new")
	lock, err := lockFile(pending)
	if err == nil {
		err = os.Rename(pending, filepath.Join(dir, ownerFile))
	}
	if err == nil {
		err = acct.own(dir)
	}
	if err != nil {
		lock.release()
		return "", fileLock{}, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// sweep removes the temporary folders that dead runs of the same account have left below root, with
// any server that still runs on them. It returns a note for each. What can't be removed is logged
// and left: a sweep never stops a start.
func sweep(root string, acct account, log *slog.Logger) []string {
	dirs, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil {
		return nil
	}
	var notes []string
	for _, dir := range dirs {
		note, err := sweepOne(dir, acct)
		switch {
		case errors.Is(err, ErrInUse):
		case err != nil:
			log.Warn("leftover of an earlier run not removed", "dir", dir, "error", err)
		case note != "":
			notes = append(notes, note)
		}
	}
	return notes
}

func sweepOne(dir string, acct account) (string, error) {
	// The temporary root is writable for every account: a folder of another account, or a link, is
	// not ours, and must not lead root elsewhere.
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return "", nil
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || (st.Uid != acct.uid && int(st.Uid) != os.Geteuid()) {
		return "", nil
	}
	owner := filepath.Join(dir, ownerFile)
	if _, err := os.Lstat(owner); errors.Is(err, os.ErrNotExist) {
		if time.Since(fi.ModTime()) < creationGrace {
			return "", nil
		}
	} else {
		lock, err := lockFile(owner)
		if err != nil {
			return "", err
		}
		defer lock.release()
	}
	note := "removed " + dir + ", left by an earlier run"
	if pid, err := stopOrphan(filepath.Join(dir, dataName)); err != nil {
		return "", err
	} else if pid != 0 {
		note = fmt.Sprintf("stopped postgres %d and %s", pid, note)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return note, nil
}
