//go:build !linux

package pgserver

import (
	"os/exec"
	"strconv"
	"strings"
)

// lookup asks ps for one process. A zombie counts as gone. ps joins the arguments by spaces, so a
// data folder with a space in its path is not recognised as ours; the caller then refuses instead
// of stopping it.
func lookup(pid int) (process, bool) {
	for _, p := range ps("-p", strconv.Itoa(pid)) {
		return p, true
	}
	return process{}, false
}

func processes() []process { return ps("-ax") }

func ps(selection ...string) []process {
	out, err := exec.Command("ps", append(selection, "-o", "pid=,ppid=,state=,command=")...).Output()
	if err != nil {
		return nil // ps exits 1 when nothing matches
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[2], "Z") {
			continue
		}
		pid, err1 := strconv.Atoi(f[0])
		ppid, err2 := strconv.Atoi(f[1])
		if err1 != nil || err2 != nil {
			continue
		}
		all = append(all, process{pid: pid, ppid: ppid, args: f[3:]})
	}
	return all
}
