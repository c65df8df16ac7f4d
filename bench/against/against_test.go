package against

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeBench takes the flags of a benchmark and writes the figures that were built into it.
const fakeBench = `package main

import (
	_ "embed"
	"flag"
	"io"
	"net"
	"os"
	"os/signal"
)

//go:embed figures.json
var figures []byte

func main() {
	for _, name := range []string{"rounds", "modes", "systems", "root"} {
		flag.String(name, "", "")
	}
	flag.Bool("quick", false, "")
	flag.Func("pg", "", func(string) error { return nil })
	out := flag.String("out", "", "")
	flag.Parse()
	// Written without being asked to, as an older revision may do.
	os.WriteFile("figures.json", figures, 0o644)
	if socket := os.Getenv("FAKE_BENCH_HANGS"); socket != "" {
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		conn, err := net.Dial("unix", socket)
		if err != nil {
			panic(err)
		}
		<-interrupted
		io.WriteString(conn, "interrupted")
		os.Exit(1)
	}
	ran, err := os.OpenFile(os.Getenv("FAKE_BENCH_RAN"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	ran.WriteString(os.Args[0] + "\n")
	if err := os.WriteFile(*out, figures, 0o644); err != nil {
		panic(err)
	}
}
`

// repository is a temporary git repository whose one commit has a benchmark.
type repository struct {
	dir, temp string
	out       strings.Builder
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{dir: t.TempDir(), temp: t.TempDir()}
	t.Setenv("TMPDIR", r.temp)
	t.Setenv("FAKE_BENCH_RAN", filepath.Join(t.TempDir(), "ran"))
	isolateGit(t)
	r.git(t, "init", "--quiet")
	r.write(t, "README.md", "no benchmark yet\n")
	r.commit(t)
	r.git(t, "tag", "before")
	r.write(t, "bench/go.mod", "module fakebench\n\ngo 1.26.0\n")
	r.write(t, "bench/main.go", fakeBench)
	r.write(t, "bench/size.go", "package main\n")
	r.figures(t, whole())
	r.commit(t)
	return r
}

// isolateGit isolates git from the configuration of this account, and from the repository in whose
// hook the tests may run.
func isolateGit(t *testing.T) {
	t.Helper()
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		t.Setenv(name, os.DevNull)
	}
	for _, name := range []string{"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} {
		t.Setenv(name, "") // has it restored
		os.Unsetenv(name)
	}
}

func (r *repository) git(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"-C", r.dir, "-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)
	out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (r *repository) commit(t *testing.T) {
	t.Helper()
	r.git(t, "add", "--all")
	r.git(t, "commit", "--quiet", "--message", "test: commit")
}

func (r *repository) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// figures sets what the benchmark measures when it is built from now on.
func (r *repository) figures(t *testing.T, values map[string]float64) {
	t.Helper()
	text, err := json.Marshal(measured(values))
	if err != nil {
		t.Fatal(err)
	}
	r.write(t, "bench/figures.json", string(text))
}

func (r *repository) config() Config {
	return Config{Dir: r.dir, Revision: "HEAD", Rounds: 3, Most: DefaultMost, Out: &r.out, Progress: &strings.Builder{}}
}

// lastLine returns the last line of the report, which is meant for programs.
func (r *repository) lastLine() string {
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	return lines[len(lines)-1]
}

// leavesNothing checks that after a run the folder for temporary files is empty again and the
// repository is as it was.
func (r *repository) leavesNothing(t *testing.T, status string) {
	t.Helper()
	left, err := os.ReadDir(r.temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if now := r.git(t, "status", "--porcelain"); now != status {
		t.Errorf("the repository was %q, is %q", status, now)
	}
	if trees := strings.Count(r.git(t, "worktree", "list"), "\n"); trees != 1 {
		t.Errorf("the repository has %d worktrees, want 1", trees)
	}
}

func TestATreeThatCostsMoreIsExceeding(t *testing.T) {
	r := newRepository(t)
	dearer := whole()
	dearer[enqueueCPU], dearer[drainRate] = 113, 500
	r.figures(t, dearer)
	r.write(t, "bench/size.go", "package main\n\n// It measures more.\n")
	status := r.git(t, "status", "--porcelain")

	cfg := r.config()
	if err := Run(t.Context(), cfg); !errors.Is(err, ErrExceeded) {
		t.Errorf("Run: %v, want %v", err, ErrExceeded)
	}
	want := "against: drain=0.500 [0.500..0.500] enqueue=1.000 [1.000..1.000] cpu=1.100 [1.100..1.100] wal=1.000 " +
		"[1.000..1.000]"
	if got := r.lastLine(); got != want {
		t.Errorf("the last line is\n%s, want\n%s", got, want)
	}
	if !strings.Contains(r.out.String(), "measures differs in bench/size.go:") {
		t.Errorf("the report does not name the file that decides what is measured and differs:\n%s", r.out.String())
	}
	ran, err := os.ReadFile(os.Getenv("FAKE_BENCH_RAN"))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for path := range strings.Lines(string(ran)) {
		order = append(order, strings.TrimPrefix(strings.TrimSpace(filepath.Base(path)), "bench-"))
	}
	if got := strings.Join(order, " "); got != "rev tree tree rev rev tree" {
		t.Errorf("the runs were %s, want them to alternate", got)
	}
	r.leavesNothing(t, status)

	cfg.Most = 1.1
	if err := Run(t.Context(), cfg); err != nil {
		t.Errorf("Run at most 1.1 times: %v", err)
	}
}

func TestAnUnknownRevisionIsNamed(t *testing.T) {
	r := newRepository(t)
	for _, revision := range []string{"f00f00f", "HEAD^{tree}", "--all", ""} {
		cfg := r.config()
		cfg.Revision = revision
		want := "REV=" + revision + " is no commit of this repository"
		if err := Run(t.Context(), cfg); err == nil || err.Error() != want {
			t.Errorf("Run: %v, want %s", err, want)
		}
	}
	r.leavesNothing(t, "")
}

func TestARevisionWithoutABenchmarkIsRefused(t *testing.T) {
	r := newRepository(t)
	cfg := r.config()
	cfg.Revision = "before"
	if err := Run(t.Context(), cfg); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run: %v, want it to miss a file", err)
	}
	r.leavesNothing(t, "")
}

func TestSettingsAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"no round":        func(c *Config) { c.Rounds = 0 },
		"too many rounds": func(c *Config) { c.Rounds = maxRounds + 1 },
		"no bound":        func(c *Config) { c.Most = 0 },
	} {
		cfg := Config{Rounds: 1, Most: 1}
		if spoil(&cfg); Run(t.Context(), cfg) == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}

// TestAnEndedRunLeavesNothing checks that a run that is ended early interrupts the benchmark,
// which has a server to stop, and leaves nothing.
func TestAnEndedRunLeavesNothing(t *testing.T) {
	r := newRepository(t)
	// The path of a socket is short.
	dir, err := os.MkdirTemp("/tmp", "railhead-against-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_BENCH_HANGS", socket)

	stopped := errors.New("stopped by the test")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	said := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			said <- err.Error()
			return
		}
		defer conn.Close()
		stop(stopped)
		last := make([]byte, 100)
		n, _ := conn.Read(last)
		said <- string(last[:n])
	}()
	if err := Run(ctx, r.config()); !errors.Is(err, stopped) {
		t.Errorf("Run: %v, want %v", err, stopped)
	}
	listener.Close() // if no benchmark came
	if last := <-said; last != "interrupted" {
		t.Errorf("the benchmark said %q, want that it was interrupted", last)
	}
	r.leavesNothing(t, "")
}

func TestACommandEndsAtItsLimit(t *testing.T) {
	_, err := command{limit: 10 * time.Millisecond, name: "sleep", args: []string{"60"}}.run(t.Context())
	if _, ended := errors.AsType[*exec.ExitError](err); err == nil || ended {
		t.Errorf("run: %v, want that its limit was reached", err)
	}
}

// TestARealRevisionIsBuiltAndRun commits this source to a repository of its own,
// so that it needs no history, and drains a few payments with the benchmark that
// comes out: it knows the flags, and its file of figures is read.
func TestARealRevisionIsBuiltAndRun(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	isolateGit(t)
	t.Setenv("GIT_DIR", filepath.Join(temp, "git"))
	t.Setenv("GIT_WORK_TREE", root)
	r := &repository{dir: root}
	r.git(t, "init", "--quiet")
	r.commit(t)

	c := &comparison{temp: temp, Config: Config{Go: "go", BuildLimit: defaultBuildLimit, Quick: true,
		Settings: map[string]string{"work_mem": "5MB"}}}
	c.Progress = &strings.Builder{}
	b := build{"HEAD", filepath.Join(temp, "bench")}
	source := filepath.Join(temp, "source")
	if err := errors.Join(extract(t.Context(), root, "HEAD", source), c.compile(t.Context(), source, b)); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(temp, "figures.json")
	args := append(c.arguments(out), "-modes", "drain") // the last one counts
	if _, err := (command{dir: temp, limit: defaultRunLimit, name: b.program, args: args}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got run
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.Settings, "work_mem=5MB") {
		t.Errorf("the server had %s, want the setting that it was given", got.Settings)
	}
	for mode, unit := range map[string]string{drainRate: "payments/s", drainCPU: "us/payment", drainWAL: "B/payment"} {
		if row := got.figure(mode); len(row.Values) != 1 || row.Median <= 0 || row.Unit != unit {
			t.Errorf("%q is %v %s, want one value in %s", mode, row.Values, row.Unit, unit)
		}
	}
}
