package server

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestConfine checks that a process and its child are confined, and are free again afterwards.
func TestConfine(t *testing.T) {
	all, err := CPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("this process may run nowhere")
	}
	shell := exec.Command("sh", "-c", "sleep 60 & echo $!; wait")
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if process, err := os.FindProcess(child); err == nil {
			_ = process.Kill()
		}
		_ = shell.Wait()
	})
	last := all[len(all)-1]
	for _, cpus := range [][]int{{last}, all} {
		set, err := setOf(cpus)
		if err != nil {
			t.Fatal(err)
		}
		if err := confine(shell.Process.Pid, set); err != nil {
			t.Fatal(err)
		}
		for _, pid := range []int{shell.Process.Pid, child} {
			if got, want := allowed(t, pid), len(cpus); got != want {
				t.Errorf("process %d may run on %d CPUs, want %d", pid, got, want)
			}
		}
	}
	if _, err := setOf([]int{1 << 20}); err == nil {
		t.Error("a CPU that no machine has")
	}
	if err := confine(1<<22+1, cpuSet{}); err == nil {
		t.Error("a process that is not there was confined")
	}
}

// allowed returns the number of CPUs of a process, as proc(5) shows them.
func allowed(t *testing.T, pid int) (n int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(strings.TrimSpace(list), "\n")
	for part := range strings.SplitSeq(list, ",") {
		var from, to int
		if count, err := fmt.Sscanf(part, "%d-%d", &from, &to); err != nil && count < 1 {
			t.Fatalf("CPUs %q: %v", list, err)
		} else if count == 1 {
			to = from
		}
		n += to - from + 1
	}
	return n
}
