package localrun

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// openFolder creates a folder that every account may enter; that of t.TempDir is in one of the
// caller's own.
func openFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "lr-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// closedRun returns the folder of a run in a checkout below a folder of mode 0700.
func closedRun(t *testing.T) (dir, above string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only its servers run as another account")
	}
	above = filepath.Join(openFolder(t), "home")
	dir = filepath.Join(above, "checkout", "build", "run")
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(above, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, above
}

// withDatabase starts the database of a run, calls use with it, and stops it. It returns what was
// printed.
func withDatabase(t *testing.T, dir, elsewhere string, use func(*installation, *pgx.Conn)) string {
	t.Helper()
	var out bytes.Buffer
	i := &installation{Options: Options{Dir: dir, Out: &out}, elsewhere: elsewhere}
	defer func() {
		if err := i.stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := i.startDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), i.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	use(i, conn)
	return out.String()
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

func TestDataOfAClosedFolder(t *testing.T) {
	t.Parallel()
	dir, above := closedRun(t)
	elsewhere := filepath.Join(openFolder(t), "var", "railhead")
	var data string
	said := withDatabase(t, dir, elsewhere, func(i *installation, conn *pgx.Conn) {
		data = i.server.DataDir()
		execute(t, conn, "CREATE TABLE kept AS SELECT 7 AS n")
	})
	if !strings.HasPrefix(data, elsewhere+"/") {
		t.Errorf("the data is in %s, want it below %s", data, elsewhere)
	}
	if want := "run: database: its data is in " + data + ", because account "; !strings.Contains(said, want) ||
		!strings.Contains(said, above) {
		t.Errorf("said %q, want %q and the folder %s", said, want, above)
	}
	again := withDatabase(t, dir, elsewhere, func(i *installation, conn *pgx.Conn) {
		if i.server.DataDir() != data {
			t.Errorf("the second run uses %s, the first %s", i.server.DataDir(), data)
		}
		execute(t, conn, "INSERT INTO kept VALUES (8)")
	})
	if !strings.Contains(again, data) || strings.Contains(again, "created") {
		t.Errorf("the second run said %q", again)
	}
	if info, err := os.Stat(above); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the closed folder: %v, %v; want mode 0700 as before", info, err)
	}
	if err := os.Chmod(above, 0o755); err != nil {
		t.Fatal(err)
	}
	withDatabase(t, dir, elsewhere, func(_ *installation, conn *pgx.Conn) {
		execute(t, conn, "INSERT INTO kept VALUES (9)") // also once the folder is open
	})
}

// TestKilledRunInAClosedFolder checks that a run that was killed leaves its server and its folders
// to the next one.
func TestKilledRunInAClosedFolder(t *testing.T) {
	t.Parallel()
	dir, _ := closedRun(t)
	elsewhere := filepath.Join(openFolder(t), "railhead")
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), dirEnv+"="+dir, elsewhereEnv+"="+elsewhere)
	killed.Stderr = t.Output()
	if _, err := killed.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	defer killed.Process.Kill()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the run ended: %v", err)
	}
	var first started
	if err := json.Unmarshal(line, &first); err != nil {
		t.Fatalf("it printed %q: %v", line, err)
	}
	conn, err := pgx.Connect(t.Context(), first.Admin)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, conn, "CREATE TABLE kept AS SELECT 7 AS n")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait()
	conn.Close(context.WithoutCancel(t.Context()))

	withDatabase(t, dir, elsewhere, func(i *installation, conn *pgx.Conn) {
		if i.server.PID() == first.PID {
			t.Errorf("server %d of the killed run still runs", first.PID)
		}
		execute(t, conn, "INSERT INTO kept VALUES (8)")
	})
}

// TestDataOfAnOpenFolder checks that all data stays in the folder of the run if the server's
// account may enter it.
func TestDataOfAnOpenFolder(t *testing.T) {
	t.Parallel()
	dir, elsewhere := openFolder(t), filepath.Join(openFolder(t), "railhead")
	i := &installation{Options: Options{Dir: dir, Out: t.Output()}, elsewhere: elsewhere}
	if data, err := i.placeData(); err != nil || data != filepath.Join(dir, "pg") {
		t.Errorf("data in %s, %v", data, err)
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Errorf("%s was made", elsewhere)
	}
}

// TestDataHasNoPlace checks that data can't go below a folder that is closed as well; the error
// names both.
func TestDataHasNoPlace(t *testing.T) {
	t.Parallel()
	dir, above := closedRun(t)
	i := &installation{Options: Options{Dir: dir, Out: t.Output()}, elsewhere: filepath.Join(above, "elsewhere")}
	if data, err := i.placeData(); err == nil || strings.Count(err.Error(), above) != 2 {
		t.Errorf("data in %s, %v; want an error that names %s twice", data, err, above)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the folder of the run: %v, %v; want the log alone", left, err)
	}
}
