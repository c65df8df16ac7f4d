package growth

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of times in /proc, which Linux fixes for user space.
const tick = 10 * time.Millisecond

// machineCPU returns the processors' time of the whole machine that was not idle, with what was
// lost to other machines on the same host (steal).
func machineCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachine(text)
}

// parseMachine parses the first line of proc(5) stat: cpu user nice system idle iowait irq softirq
// steal.
func parseMachine(text []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("unexpected /proc/stat line %q", line)
	}
	var ticks int64
	for _, n := range []int{1, 2, 3, 6, 7, 8} {
		one, err := strconv.ParseInt(string(fields[n]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat line %q: %w", line, err)
		}
		ticks += one
	}
	return time.Duration(ticks) * tick, nil
}

const (
	littleWrite = 8 << 10
	muchWrite   = 512 << 10
	flushTries  = 101
)

// flushTimes returns the median time of a flush of little, and the bytes a second that a larger one
// adds, of a file below root that is written over as a WAL segment is.
func flushTimes(root string) (flush, rate float64, err error) {
	file, err := os.CreateTemp(root, "railhead-flush-")
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	const segment = 16 << 20
	if _, err := file.Write(make([]byte, segment)); err != nil {
		return 0, 0, err
	}
	if err := file.Sync(); err != nil {
		return 0, 0, err
	}
	median := func(size int) (float64, error) {
		block := bytes.Repeat([]byte{1}, size)
		var all []float64
		for n := range flushTries {
			begun := time.Now()
			if _, err := file.WriteAt(block, int64(n*size%segment)); err != nil {
				return 0, err
			}
			if err := syscall.Fdatasync(int(file.Fd())); err != nil {
				return 0, err
			}
			all = append(all, time.Since(begun).Seconds())
		}
		slices.Sort(all)
		return all[len(all)/2], nil
	}
	little, err := median(littleWrite)
	if err != nil {
		return 0, 0, err
	}
	much, err := median(muchWrite)
	if err != nil {
		return 0, 0, err
	}
	if more := much - little; more > 0 {
		rate = (muchWrite - littleWrite) / more
	}
	return little, rate, nil
}
