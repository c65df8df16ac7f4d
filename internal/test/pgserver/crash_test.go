package pgserver

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

func TestServerDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	h := startHelper(t, "serve", withEnv(rootEnv+"="+root))
	query(t, h.URL, "SELECT 'here'")
	h.kill()
	wantGone(t, "server", h.PID)

	srv := start(t, Options{TempRoot: root})
	wantNote(t, srv.Notes(), "removed "+h.Run)
	if _, err := os.Stat(h.Run); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder of the dead run: %v, want it gone", err)
	}
}

func TestDataSurvivesItsStarter(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	data := filepath.Join(root, "pg")
	env := withEnv(rootEnv+"="+root, dataEnv+"="+data)
	first := startHelper(t, "serve", env)
	execute(t, first.URL, "CREATE TABLE t AS SELECT 7 AS n")
	first.kill()

	// It starts at once, while the old server may still be ending.
	second := startHelper(t, "serve", env)
	if got := query(t, second.URL, "SELECT n::text FROM t"); got != "7" {
		t.Errorf("read %q after the crash, want 7", got)
	}
	second.finish(t)
	wantEmpty(t, root)
}

// orphan starts a server on data as Start does, but without anything that ends it with this
// process.
func orphan(t *testing.T, srv *Server, args ...string) int {
	t.Helper()
	cmd := exec.Command(srv.bin.Path("postgres"), args...)
	cmd.Dir = "/"
	srv.acct.apply(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() { _ = cmd.Wait() }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for srv.ping(t.Context()) != nil {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the orphan did not answer")
		}
	}
	return cmd.Process.Pid
}

// halted returns a lasting data folder that was in use and has no owner any more. The socket
// folder stays.
func halted(t *testing.T, root string) *Server {
	t.Helper()
	srv := start(t, Options{TempRoot: root, DataDir: filepath.Join(root, "pg")})
	if err := srv.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.locks[1].release()
	return srv
}

func TestOrphanIsStopped(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	old := halted(t, root)
	pid := orphan(t, old, serverArgs(old.data)...)

	srv := start(t, Options{TempRoot: root, DataDir: old.data})
	wantNote(t, srv.Notes(), "stopped postgres "+strconv.Itoa(pid))
	if _, alive := lookup(pid); alive {
		t.Errorf("orphan %d still runs", pid)
	}
	query(t, srv.URL("", ""), "SELECT 'here'")
}

func TestForeignServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	old := halted(t, root)
	pid := orphan(t, old, "-D", old.data, "-c", "work_mem=2MB")

	if _, err := Start(t.Context(), Options{TempRoot: root, DataDir: old.data}); !errors.Is(err, ErrInUse) {
		t.Errorf("start on the data of another process's server: %v, want ErrInUse", err)
	}
	if _, alive := lookup(pid); !alive {
		t.Error("the other server was stopped")
	}
}

func TestStalePidFile(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"other program": fmt.Sprintf("%d\n/nowhere\n", os.Getpid()), // after a reboot pids come back
		"dead process":  "4194000\n/nowhere\n",
		"torn":          "12x",
		"empty":         "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tempRoot(t)
			old := halted(t, root)
			file := filepath.Join(old.data, "postmaster.pid")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			srv := start(t, Options{TempRoot: root, DataDir: old.data})
			query(t, srv.URL("", ""), "SELECT 'here'")
		})
	}
}

func TestHalfMadeDataFolder(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	data := filepath.Join(root, "pg")
	if err := os.MkdirAll(filepath.Join(data+".new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	srv := start(t, Options{TempRoot: root, DataDir: data})
	query(t, srv.URL("", ""), "SELECT 'here'")
	if _, err := os.Stat(data + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half-made folder: %v, want it gone", err)
	}
}

func TestSweepKnowsItsOwn(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	mkdir := func(name string, uid int, age time.Time) string {
		dir := filepath.Join(root, name)
		err := errors.Join(os.Mkdir(dir, 0o700), os.Chtimes(dir, age, age))
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Lchown(dir, uid, -1))
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	live, lock, err := makeTemp(root, acct)
	if err != nil {
		t.Fatal(err)
	}
	keep := []string{live, mkdir(tempPrefix+"new", int(acct.uid), time.Now()), mkdir("other", int(acct.uid), long)}
	drop := []string{mkdir(tempPrefix+"old", int(acct.uid), long)}
	if os.Geteuid() == 0 {
		keep = append(keep, mkdir(tempPrefix+"stranger", 12345, long))
	}
	link := filepath.Join(root, tempPrefix+"link")
	if err := os.Symlink(keep[2], link); err != nil {
		t.Fatal(err)
	}
	keep = append(keep, link)

	notes := sweep(root, acct, slog.New(slog.DiscardHandler))
	if len(notes) != len(drop) {
		t.Errorf("notes %q, want %d", notes, len(drop))
	}
	for _, dir := range keep {
		if _, err := os.Lstat(dir); err != nil {
			t.Errorf("not ours to remove: %v", err)
		}
	}
	for _, dir := range drop {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it gone", dir, err)
		}
	}
	lock.release()
	// A process that another test is starting has a copy of the lock until it runs its program.
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		sweep(root, acct, slog.New(slog.DiscardHandler))
		_, err := os.Lstat(live)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%s, whose owner is dead: %v, want it gone", live, err)
			break
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	h := startHelper(t, "watch", nil)
	if _, alive := lookup(h.PID); !alive {
		t.Fatal("the watched process is not there")
	}
	h.kill()
	wantGone(t, "watched process", h.PID)

	// After an orderly end the watch signals no process.
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end, err := guarded.Watch(cmd.Process.Pid, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	end()
	if _, alive := lookup(cmd.Process.Pid); !alive {
		t.Error("ending the watch killed the process")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestAsNormalUser starts servers from a process of a normal user if the tests run as root: servers
// of root run under another account, those of a normal user under the user's own.
func TestAsNormalUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("every test of this run is one of a normal user")
		return
	}
	const unprivileged = 65534
	root := tempRoot(t)
	exe := filepath.Join(root, "helper") // go test keeps its binary in a folder of root alone
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second run meets what the first left when it was killed
		h := startHelper(t, "serve", func(cmd *exec.Cmd) {
			cmd.Path, cmd.Dir = exe, root
			cmd.Env = append(cmd.Env, rootEnv+"="+root, dataEnv+"="+filepath.Join(root, "mine", "pg"), "HOME=/nonexistent")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
		})
		if h.UID != unprivileged {
			t.Fatalf("helper runs as %d", h.UID)
		}
		fi, err := os.Stat(h.Data)
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Uid != unprivileged {
			t.Error("data folder is not the user's")
		}
		h.kill()
		wantGone(t, "server", h.PID)
	}
}
