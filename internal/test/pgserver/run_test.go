package pgserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// runHelper runs a shell script under RunCommand in a process of its own and returns what it
// printed and its exit code.
func runHelper(t *testing.T, script string, env ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := helperCommand(t, "run", withEnv(env...))
	cmd.Args = append(cmd.Args, "sh", "-c", script)
	cmd.Stdout = &out
	err := cmd.Run()
	if err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func TestRunCommandExitCodes(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 128 + 15} {
		if _, got := runHelper(t, script, rootEnv+"="+root); got != want {
			t.Errorf("%q: exit code %d, want %d", script, got, want)
		}
	}
	wantEmpty(t, root)
}

func TestRunCommandUsesGivenServer(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	out, code := runHelper(t, "echo $"+EnvURL+"; ls -d "+root+"/rh-* 2>/dev/null", rootEnv+"="+root,
		EnvURL+"=postgres://x@/y")
	if got := strings.TrimSpace(out); got != "postgres://x@/y" {
		t.Errorf("command printed %q (exit code %d), want the given URL and no server", got, code)
	}
}

func TestRunCommandKillsWhatIsLeft(t *testing.T) {
	t.Parallel()
	// The shell ends; its child would run for a minute and keep our output open.
	out, code := runHelper(t, "sleep 60 >/dev/null 2>&1 & echo $!", rootEnv+"="+tempRoot(t))
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || code != 0 {
		t.Fatalf("printed %q, exit code %d", out, code)
	}
	wantGone(t, "grandchild", pid)
}

func TestRunCommandForwardsSignals(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	cmd, lines := startRun(t, root, `trap 'echo caught; exit 3' INT; echo $$; echo $`+EnvURL+`; while :; do sleep 0.01; done`)
	shell := next(t, lines)
	url := next(t, lines)
	query(t, url, "SELECT 'here'")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := next(t, lines); got != "caught" {
		t.Errorf("command printed %q, want it to catch the signal", got)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 3 {
		t.Errorf("exit code %d, want that of the command, 3", got)
	}
	pid, err := strconv.Atoi(shell)
	if err != nil {
		t.Fatal(err)
	}
	wantGone(t, "command", pid)
	wantEmpty(t, root)
}

func TestRunCommandKilled(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	cmd, lines := startRun(t, root, `echo $$; echo $`+EnvURL+`; exec sleep 60`)
	shell, err := strconv.Atoi(next(t, lines))
	if err != nil {
		t.Fatal(err)
	}
	url := next(t, lines)
	server, err := strconv.Atoi(query(t, url, "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)"))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, "command", shell)
	wantGone(t, "server", server)
	_ = cmd.Wait()

	start(t, Options{TempRoot: root}) // sweeps
	left, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil || len(left) != 1 {
		t.Errorf("below the temporary root: %v %v, want the new server's folder alone", left, err)
	}
}

func TestRunCommandReportsLostServer(t *testing.T) {
	t.Parallel()
	script := `d=$(ls -d "$` + rootEnv + `"/rh-*/data); p=$(head -n 1 "$d/postmaster.pid"); kill -QUIT "$p"; while kill -0 "$p" 2>/dev/null; do sleep 0.01; done; exit 4`
	if _, got := runHelper(t, script, rootEnv+"="+tempRoot(t)); got != exitHelper {
		t.Errorf("exit code %d, want the error of a lost server", got)
	}
}

func TestRunCommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	env := append(os.Environ(), EnvURL+"=postgres://x@/y")
	code, err := RunCommand(ctx, Options{}, []string{"sleep", "60"}, env)
	if err != nil || code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, %v; want that of SIGTERM", code, err)
	}
}

func TestRunCommandRefuses(t *testing.T) {
	t.Parallel()
	if _, err := RunCommand(t.Context(), Options{}, nil, nil); err == nil {
		t.Error("ran no command at all")
	}
	env := append(os.Environ(), EnvURL+"=postgres://x@/y")
	if _, err := RunCommand(t.Context(), Options{}, []string{"/no/such/program"}, env); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing program: %v", err)
	}
}

// startRun starts RunCommand in a process of its own, and returns it with the lines that the
// script prints.
func startRun(t *testing.T, root, script string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := helperCommand(t, "run", withEnv(rootEnv+"="+root))
	cmd.Args = append(cmd.Args, "sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

func next(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("output ended: %v", lines.Err())
	}
	return lines.Text()
}
