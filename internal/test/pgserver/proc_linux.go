package pgserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lookup reads one process from /proc. A zombie counts as gone. Every account can read stat and
// cmdline; in containers without CAP_SYS_PTRACE, exe and cwd can't be read.
func lookup(pid int) (process, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, false
	}
	// pid (comm) state ppid ...; comm may hold anything, parentheses too.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, false
	}
	f := strings.Fields(string(stat[end+1:]))
	if len(f) < 2 || f[0] == "Z" || f[0] == "X" {
		return process{}, false
	}
	ppid, err := strconv.Atoi(f[1])
	if err != nil {
		return process{}, false
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid, ppid: ppid}
	if s := strings.TrimRight(string(cmdline), "\x00"); s != "" {
		p.args = strings.Split(s, "\x00")
	}
	return p, true
}

func processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := lookup(pid); ok {
			all = append(all, p)
		}
	}
	return all
}
