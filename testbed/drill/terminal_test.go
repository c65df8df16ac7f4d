package drill

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// loop reads the names of files with blocks and runs each in this one shell, as an operator types
// one after the other: a variable that one block sets is set in the next. The shell ends at the
// first command that fails. However it ends, even if this process is killed, it runs a last command
// and stops the jobs in the background.
const loop = `
trap '%s; jobs -p | xargs -r kill; wait' EXIT
while read -r block; do
  . "$block" </dev/null 3>&-
  echo done >&3
done`

// terminal is a shell that runs blocks of the page.
type terminal struct {
	name   string
	dir    string
	blocks int
	busy   bool     // a block is under way
	in     *os.File // names of files to run
	done   *bufio.Scanner
	exited <-chan error
	screen string // the file of what was printed
}

// openTerminal starts a shell in dir, with nothing in its environment but env. The argument as is
// the account of the shell; nil stands for that of this process.
func openTerminal(t *testing.T, name, dir string, env []string, as *syscall.Credential, last string) *terminal {
	t.Helper()
	term := &terminal{name: name, dir: dir, screen: filepath.Join(dir, name+".screen")}
	screen, err := os.Create(term.screen)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	report, reports, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	term.in, term.done = ours, bufio.NewScanner(report)

	shell := exec.Command("bash", "-euo", "pipefail", "-c", fmt.Sprintf(loop, last))
	shell.Dir, shell.Env = dir, env
	shell.Stdin, shell.Stdout, shell.Stderr, shell.ExtraFiles = theirs, screen, screen, []*os.File{reports}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	if term.exited, err = guarded.Start(shell, syscall.SIGTERM); err != nil {
		t.Fatalf("terminal of %s: %v", name, err)
	}
	t.Cleanup(func() {
		if term.busy {
			_ = shell.Process.Signal(syscall.SIGTERM)
		}
		ours.Close() // ends the loop
		<-term.exited
		report.Close()
		if t.Failed() {
			t.Logf("terminal of %s:\n%s", name, term.printed())
		}
	})
	return term
}

// blockWithin bounds one block, because blocks that wait have no bound of their own.
const blockWithin = 2 * time.Minute

// run runs a block to its end.
func (term *terminal) run(t *testing.T, b block) {
	t.Helper()
	term.blocks++
	file := filepath.Join(term.dir, fmt.Sprintf("%s-%d.sh", term.name, term.blocks))
	if err := os.WriteFile(file, []byte(b.text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(term.in, file); err != nil {
		t.Fatalf("step %s, terminal of %s: %v", b.step, term.name, err)
	}
	term.busy = true
	ended := make(chan bool, 1)
	go func() { ended <- term.done.Scan() }()
	select {
	case ok := <-ended:
		if !ok {
			t.Fatalf("step %s, terminal of %s: a command failed", b.step, term.name)
		}
		term.busy = false
	case <-time.After(blockWithin):
		t.Fatalf("step %s, terminal of %s: the block has not ended after %s", b.step, term.name, blockWithin)
	}
}

func (term *terminal) printed() string {
	text, err := os.ReadFile(term.screen)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
