package ha

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// postmaster returns the id of PostgreSQL's first process on the host; 0 if there is none.
func (o *host) postmaster() int {
	text, err := os.ReadFile(filepath.Join(o.pgdata(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	// The file outlives a killed server, and another program may have its number by now.
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil || filepath.Clean(folder) != o.pgdata() {
		return 0
	}
	return pid
}

// postgres returns the ids of PostgreSQL's processes on the host, the first one first.
func (o *host) postgres() []int {
	first := o.postmaster()
	if first == 0 {
		return nil
	}
	all := []int{first}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid ...; a name may hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(first) {
			all = append(all, pid)
		}
	}
	return all
}

// signalPostgres sends a signal to each process of PostgreSQL on the host.
func (o *host) signalPostgres(sig syscall.Signal) error {
	var all []error
	for _, pid := range o.postgres() {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// signalPatroni sends a signal to Patroni, if it runs.
func (o *host) signalPatroni(sig syscall.Signal) error {
	p := o.services["patroni"]
	if p == nil || !p.Alive() {
		return nil
	}
	return p.Signal(sig)
}

// kill ends Patroni and PostgreSQL as the loss of the machine does, except that the kernel
// keeps what was written.
func (o *host) kill() error {
	var err error
	if p := o.services["patroni"]; p != nil && p.Alive() {
		err = p.Kill()
	}
	return errors.Join(err, o.signalPostgres(syscall.SIGKILL))
}

// freeze stops Patroni and PostgreSQL where they are.
func (o *host) freeze() error {
	// The second time it is those that were started before the first process had stopped.
	return errors.Join(o.signalPatroni(syscall.SIGSTOP), o.signalPostgres(syscall.SIGSTOP),
		o.signalPostgres(syscall.SIGSTOP))
}

// thaw continues them, in the order in which the old primary can still do harm.
func (o *host) thaw() error {
	return errors.Join(o.signalPostgres(syscall.SIGCONT), o.signalPatroni(syscall.SIGCONT))
}

// cut takes the host from the network: silently, or with every connection closed.
func (o *host) cut(silently bool) error {
	for _, wire := range append(append(o.inbound[:0:0], o.inbound...), o.outbound...) {
		if !silently {
			wire.Cut()
			continue
		}
		if err := wire.Isolate(); err != nil {
			return err
		}
	}
	return nil
}

// mend gives the host its network back.
func (o *host) mend() error {
	for _, wire := range append(append(o.inbound[:0:0], o.inbound...), o.outbound...) {
		if err := wire.Mend(); err != nil {
			return err
		}
	}
	return nil
}

// fillDisk fills the file system of the data.
func (o *host) fillDisk() error {
	file, err := os.Create(o.filler())
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<16)
	for {
		if _, err = file.Write(piece); err != nil {
			break
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// emptyDisk gives the room back.
func (o *host) emptyDisk() error {
	if err := os.Remove(o.filler()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (o *host) filler() string { return filepath.Join(o.all.dir, o.name, "disk", "filler") }
