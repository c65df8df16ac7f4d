package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"
)

// cpuSet is a set of CPUs as sched_setaffinity(2) takes it: one bit each, of 1,024.
type cpuSet [16]uint64

// CPUs returns the numbers of the CPUs that this process may run on.
func CPUs() ([]int, error) {
	var set cpuSet
	if _, _, failed := syscall.Syscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set),
		uintptr(unsafe.Pointer(&set))); failed != 0 {
		return nil, fmt.Errorf("reading which CPUs this process may run on: %w", failed)
	}
	var all []int
	for cpu := range len(set) * 64 {
		if set[cpu/64]&(1<<(cpu%64)) != 0 {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// Confine confines this process and the server, each with all its threads and descendants, to the
// given CPUs. What either starts later inherits that.
func (s *Server) Confine(cpus []int) error {
	set, err := setOf(cpus)
	if err != nil {
		return err
	}
	// This is done twice: a thread or process that was created during the first pass may have
	// inherited the CPUs of a thread that was not confined yet.
	for range 2 {
		if err := errors.Join(confine(s.PID(), set), confine(os.Getpid(), set)); err != nil {
			return err
		}
	}
	return nil
}

func setOf(cpus []int) (set cpuSet, err error) {
	for _, cpu := range cpus {
		if cpu < 0 || cpu >= len(set)*64 {
			return set, fmt.Errorf("there is no CPU %d", cpu)
		}
		set[cpu/64] |= 1 << (cpu % 64)
	}
	return set, nil
}

// confine sets the CPUs of all threads of a process and its descendants.
func confine(root int, set cpuSet) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", root))
	if err != nil {
		return err
	}
	if len(tasks) == 0 {
		return fmt.Errorf("process %d is not there", root)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			continue
		}
		_, _, failed := syscall.Syscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(id), unsafe.Sizeof(set),
			uintptr(unsafe.Pointer(&set)))
		if failed != 0 && !errors.Is(failed, syscall.ESRCH) { // that one has ended
			return fmt.Errorf("confining process %d: %w", id, failed)
		}
	}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, file := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		child, err := readStat(pid)
		if err != nil || child.parent != root || pid == root {
			continue
		}
		if err := confine(pid, set); err != nil {
			if _, gone := os.Stat(fmt.Sprintf("/proc/%d", pid)); gone == nil {
				return err
			}
		}
	}
	return nil
}
