package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
)

// facts describes what the figures were measured on and with.
type facts struct {
	CPUs      int     `json:"cpus"`
	CPU       string  `json:"cpu"`
	MemoryMiB int     `json:"memory_mib"`
	System    string  `json:"system"`
	Disk      string  `json:"disk"`     // file system of the server's data
	FlushUS   float64 `json:"flush_us"` // median of an 8 kB write and its fdatasync
	Go        string  `json:"go"`
	Commit    string  `json:"commit"` // of the code that was measured; -dirty: with edits
}

func (f facts) String() string {
	return fmt.Sprintf("%d CPUs (%s), %d MiB, %s; clients and server share them. Data on %s, a flush takes %s us. %s, "+
		"commit %s",
		f.CPUs, f.CPU, f.MemoryMiB, f.System, f.Disk, figures.Short(f.FlushUS), f.Go, f.Commit)
}

// lookAround gathers the facts; root is the folder of the server's data.
func lookAround(root string) (facts, error) {
	if root == "" {
		root = "/tmp"
	}
	f := facts{
		CPUs: runtime.NumCPU(), CPU: procValue("/proc/cpuinfo", "model name"), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Commit: commit(),
	}
	var kib int
	if _, err := fmt.Sscan(procValue("/proc/meminfo", "MemTotal"), &kib); err == nil {
		f.MemoryMiB = kib / 1024
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		f.System += " " + strings.TrimSpace(string(text))
	}
	var err error
	if f.Disk, err = fileSystem(root); err != nil {
		return f, err
	}
	f.FlushUS, err = flushTime(root)
	return f, err
}

// procValue returns the first value of a name in a file of "name: value" lines.
func procValue(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}

// commit returns the commit that this program was built from, or, if the build did not note it,
// the commit that is checked out here.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		revision, changed := "", ""
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				revision = setting.Value[:min(len(setting.Value), 12)]
			case setting.Key == "vcs.modified" && setting.Value == "true":
				changed = "-dirty"
			}
		}
		if revision != "" {
			return revision + changed
		}
	}
	text, err := exec.Command("git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// fileSystems are the usual file systems, by their magic numbers; see statfs(2).
var fileSystems = map[int64]string{0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x01021994: "tmpfs",
	0x794c7630: "overlayfs"}

func fileSystem(dir string) (string, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return "", fmt.Errorf("looking at the disk of %s: %w", dir, err)
	}
	if name, ok := fileSystems[int64(stat.Type)]; ok {
		return name, nil
	}
	return fmt.Sprintf("file system %#x", stat.Type), nil
}

// freeBytes returns how many bytes an ordinary account may still write below dir.
func freeBytes(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("looking at the disk of %s: %w", dir, err)
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}

// flushTime measures the least time that a commit waits: the same block is written and flushed
// repeatedly, as the WAL's is.
func flushTime(dir string) (us float64, err error) {
	file, err := os.CreateTemp(dir, "railhead-bench-flush-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 8192)
	const tries = 200
	took := make([]float64, 0, tries)
	for range tries {
		begun := time.Now()
		if _, err := file.WriteAt(block, 0); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(begun).Nanoseconds())/1000)
	}
	return figures.Median(took), nil
}
