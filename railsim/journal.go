package railsim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

var errJournalClosed = errors.New("ledger is closed")

// journal is the append-only file behind the ledger. Lines are queued in order and made durable in groups: the call
// that waits first writes and syncs for all that are queued, and the others wait for that one sync.
type journal struct {
	file *os.File

	mu      sync.Mutex
	turn    *sync.Cond // broadcast after each sync
	queue   []byte     // appended, not yet handed to a sync
	spare   []byte     // the buffer of the last sync, to be used again
	end     int64      // length of the file in bytes once the queue is written
	durable int64      // length in bytes that is known to be on disk
	syncing bool
	err     error // the first write or sync error; it never heals, because what the disk holds then is not known
}

// openJournal opens or creates the file, passes every complete line to replay, and cuts off a torn
// last line. A torn line was never durable, so no answer rests on it. One process at a time may
// hold a ledger.
func openJournal(path string, replay func(Record) error) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	whole, err := prepare(f, replay)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), f.Close())
	}
	j := &journal{file: f, end: whole, durable: whole}
	j.turn = sync.NewCond(&j.mu)
	return j, nil
}

func prepare(f *os.File, replay func(Record) error) (int64, error) {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return 0, fmt.Errorf("lock, is another bank using it: %w", err)
	}
	whole, err := scanLedger(f, replay)
	if err != nil {
		return 0, err
	}
	if err := f.Truncate(whole); err != nil {
		return 0, fmt.Errorf("cut the torn last line: %w", err)
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return 0, fmt.Errorf("go to the end: %w", err)
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("sync: %w", err)
	}
	return whole, syncDir(filepath.Dir(f.Name()))
}

// syncDir makes a new or renamed file in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// append queues one line and returns the file length at which it is durable. It does not block on the disk.
func (j *journal) append(line []byte) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, line...)
	j.end += int64(len(line))
	return j.end
}

// wait returns when the file is durable up to length bytes, or the error after which it never will
// be.
func (j *journal) wait(length int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.durable < length && j.err == nil {
		if j.syncing {
			j.turn.Wait()
			continue
		}
		j.sync()
	}
	if j.durable >= length {
		return nil
	}
	return j.err
}

// sync writes and syncs the queue. The caller holds mu, which sync releases during the I/O.
func (j *journal) sync() {
	group, end := j.queue, j.end
	j.queue, j.spare = j.spare[:0], nil
	j.syncing = true
	j.mu.Unlock()
	_, err := j.file.Write(group)
	if err == nil {
		err = j.file.Sync()
	}
	j.mu.Lock()
	j.syncing = false
	j.spare = group
	if err != nil {
		j.err = fmt.Errorf("write ledger: %w", err)
	} else {
		j.durable = end
	}
	j.turn.Broadcast()
}

// length is the durable length of the file in bytes, and the error that broke the ledger, if one did.
func (j *journal) length() (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.durable, j.err
}

// close makes what is queued durable and closes the file. Later waits get an error.
func (j *journal) close() error {
	j.mu.Lock()
	end, broken := j.end, j.err
	j.mu.Unlock()
	if errors.Is(broken, errJournalClosed) {
		return nil
	}
	err := j.wait(end)
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.turn.Wait()
	}
	if j.err == nil {
		j.err = errJournalClosed
	}
	return errors.Join(err, j.file.Close())
}
