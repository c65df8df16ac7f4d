package child

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Command{Name: "shell", Binary: "/bin/sh", Args: []string{"-c", script}, Env: []string{"SAID=heard"},
		Dir: t.TempDir(), Log: filepath.Join(t.TempDir(), "log")}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, script string
		end          func(*Process) error
		says         string // "": the end is a good one
	}{
		{"in order", "trap 'exit 0' TERM; echo > up; while :; do sleep 0.01; done", func(p *Process) error { return p.Stop(time.Minute) }, ""},
		{"in disorder", "trap 'exit 3' TERM; echo > up; while :; do sleep 0.01; done", func(p *Process) error { return p.Stop(time.Minute) }, "did not stop in order: exit status 3"},
		{"not at all", "trap '' TERM; echo > up; while :; do sleep 0.01; done", func(p *Process) error { return p.Stop(50 * time.Millisecond) }, "did not stop within 50ms"},
		{"killed", "echo > up; while :; do sleep 0.01; done", func(p *Process) error { return p.Kill() }, ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			p := shell(t, one.script)
			if err := p.Until(t.Context(), "be up", func() bool {
				_,
					err := os.Stat(filepath.Join(p.Dir, "up"))
				return err == nil
			}); err != nil {
				t.Fatal(err)
			}
			err := one.end(p)
			if p.Alive() || p.Died() != nil || p.Failed() != nil || (err == nil) != (one.says == "") ||
				err != nil && !strings.Contains(err.Error(), one.says) {
				t.Errorf("alive %t, died %v, failed %v: %v, want %q", p.Alive(), p.Died(), p.Failed(), err, one.says)
			}
			if err := p.Signal(syscall.SIGTERM); err == nil {
				t.Error("a signal was sent to what has ended")
			}
		})
	}
}

func TestDies(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo $SAID; exit 4")
	if _, err := p.AwaitFile(t.Context(), filepath.Join(p.Dir, "never")); err == nil ||
		!strings.Contains(err.Error(), "shell ended: exit status 4; its log is "+p.Log) {
		t.Errorf("it is waited for: %v", err)
	}
	if p.Alive() || p.Died() == nil || p.Failed() == nil {
		t.Errorf("alive %t, died %v, failed %v", p.Alive(), p.Died(), p.Failed())
	}
	if text, err := os.ReadFile(p.Log); err != nil || string(text) != "heard\n" {
		t.Errorf("its log has %q (%v)", text, err)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	if got := Clean([]string{"PATH=a", "RAILHEAD_CELL=b", "PGHOST=c", "DATABASE_URL=d", "HOME=e"}); !slices.Equal(got,
		[]string{"PATH=a", "HOME=e"}) {
		t.Error(got)
	}
}

// TestIsolate: sessions of this process are led by no variable of libpq; what else begins so stays.
func TestIsolate(t *testing.T) {
	for _, name := range []string{"PGSERVICE", "PGOPTIONS", "PGTARGETSESSIONATTRS", "PG_ROOT"} {
		t.Setenv(name, "x")
	}
	if err := Isolate(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PGSERVICE", "PGOPTIONS", "PGTARGETSESSIONATTRS"} {
		if value, is := os.LookupEnv(name); is {
			t.Errorf("%s is %q", name, value)
		}
	}
	if os.Getenv("PG_ROOT") != "x" {
		t.Error("PG_ROOT is gone")
	}
}
