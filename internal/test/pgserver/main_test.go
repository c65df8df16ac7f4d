package pgserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// The test binary acts as the processes that start servers and die: with helperEnv set it is not a
// test run.
const (
	helperEnv = "PGSERVER_TEST_HELPER" // "serve", "run" or "watch"
	dataEnv   = "PGSERVER_TEST_DATA"
	rootEnv   = "PGSERVER_TEST_ROOT"
)

// report is what a helper prints as its first line.
type report struct {
	PID   int // of the server, or of the watched process
	UID   int // that the helper runs as
	Run   string
	Data  string
	URL   string
	Notes []string
}

func TestMain(m *testing.M) {
	mode := os.Getenv(helperEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	code, err := help(context.Background(), mode)
	if err != nil {
		fmt.Fprintln(os.Stderr, mode+":", err)
		code = exitHelper
	}
	os.Exit(code)
}

// exitHelper distinguishes an error of the helper from the exit codes that tests look for.
const exitHelper = 99

func help(ctx context.Context, mode string) (int, error) {
	opts := Options{DataDir: os.Getenv(dataEnv), TempRoot: os.Getenv(rootEnv)}
	switch mode {
	case "serve":
		srv, err := Start(ctx, opts)
		if err != nil {
			return 0, err
		}
		err = announce(report{PID: srv.PID(), UID: os.Geteuid(), Run: srv.SocketDir(), Data: srv.DataDir(),
			URL: srv.URL("", ""), Notes: srv.Notes()})
		if err != nil {
			return 0, err
		}
		return 0, srv.Stop(ctx)
	case "run":
		return RunCommand(ctx, opts, os.Args[1:], nil)
	case "watch":
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		if _, err := guarded.Watch(cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return 0, err
		}
		return 0, announce(report{PID: cmd.Process.Pid})
	default:
		return 0, fmt.Errorf("unknown helper")
	}
}

// announce prints r and waits until the test closes our standard input, or dies.
func announce(r report) error {
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// helper is a running helper process.
type helper struct {
	report
	cmd *exec.Cmd
	in  io.Closer
}

// startHelper starts the test binary in a helper mode and reads its report.
func startHelper(t *testing.T, mode string, change func(*exec.Cmd)) *helper {
	t.Helper()
	cmd := helperCommand(t, mode, change)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd: cmd, in: in}
	t.Cleanup(func() { h.kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("helper %s said nothing: %v", mode, err)
	}
	if err := json.Unmarshal([]byte(line), &h.report); err != nil {
		t.Fatalf("helper %s said %q: %v", mode, line, err)
	}
	return h
}

func helperCommand(t *testing.T, mode string, change func(*exec.Cmd)) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+mode, EnvURL+"=")
	cmd.Stderr = t.Output()
	if change != nil {
		change(cmd)
	}
	return cmd
}

func withEnv(kv ...string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, kv...) }
}

// kill sends SIGKILL, which no process can catch.
func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// finish lets the helper end by itself.
func (h *helper) finish(t *testing.T) {
	t.Helper()
	h.in.Close()
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("helper: %v", err)
	}
}

// tempRoot creates a temporary root that other accounts can enter too; t.TempDir is private, and
// long.
func tempRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rt-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts a server that ends with the test at the latest.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	srv, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// query returns one text value.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var v string
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func wantGone(t *testing.T, what string, pid int) {
	t.Helper()
	began := time.Now()
	if !waitGone(pid, 5*time.Second) {
		t.Fatalf("%s %d is still there", what, pid)
	}
	t.Logf("%s gone after %v", what, time.Since(began).Round(time.Millisecond))
}

func wantNote(t *testing.T, notes []string, part string) {
	t.Helper()
	if !strings.Contains(strings.Join(notes, "\n"), part) {
		t.Errorf("notes %q lack %q", notes, part)
	}
}

func wantEmpty(t *testing.T, root string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left below the temporary root: %v %v", left, err)
	}
}
