package localrun

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
)

// The test binary acts as the run that is killed: with these variables set it starts the database
// of a local run, prints its [started] and ends with its standard input.
const (
	dirEnv       = "LOCALRUN_TEST_DIR"
	elsewhereEnv = "LOCALRUN_TEST_ELSEWHERE"
)

// started is the output of that process.
type started struct {
	Admin string
	PID   int
}

func TestMain(m *testing.M) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	syscall.Umask(0o077) // a strict one, as root may have
	if err := serve(context.Background(), dir, os.Getenv(elsewhereEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, dir, elsewhere string) error {
	i := &installation{Options: Options{Dir: dir, Out: os.Stderr}, elsewhere: elsewhere}
	if err := i.startDatabase(ctx); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(started{Admin: i.admin, PID: i.server.PID()}); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
