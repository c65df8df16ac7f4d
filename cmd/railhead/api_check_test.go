package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestAPIThatCannotEnqueueEnds: an API whose heartbeats are recorded, and which the database refuses each enqueue, does
// not start: it looked for second keys in vain, and would be ready and answer each call with 503. One that finds its
// login above READ COMMITTED behind a pooler, where it can't change that, says what to do.
func TestAPIThatCannotEnqueueEnds(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := command{t: t, env: []string{"RAILHEAD_API_URL=" + cell.URL(celltest.API), "RAILHEAD_HTTP_ADDR=127.0.0.1:0",
		"RAILHEAD_API_ADDR=127.0.0.1:0", "RAILHEAD_LOG_LEVEL=error"}}
	ends := func() (code int, errs string) {
		t.Helper()
		var said bytes.Buffer
		cmd := who.process("api")
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop() //nolint:errcheck // it has ended
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
			t.Fatalf("the API goes on: %v\n%s", err, said.String())
		}
		return cmd.ProcessState.ExitCode(), said.String()
	}
	cell.Exec(`REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA railhead FROM railhead_api`)
	cell.Exec(`GRANT EXECUTE ON FUNCTION railhead.beat_api, railhead.schema_version TO railhead_api`)
	if code, said := ends(); code != exitDenied || !strings.Contains(said, "second keys") {
		t.Errorf("without a right to enqueue it ends with %d and %s", code, said)
	}
	cell.Exec(`ALTER ROLE ` + celltest.API + ` IN DATABASE ` + cell.Name +
		` SET default_transaction_isolation = 'repeatable read'`)
	who.env[0] += "&default_query_exec_mode=cache_describe"
	if code, said := ends(); code == exitOK || !strings.Contains(said, "ALTER ROLE") {
		t.Errorf("behind a pooler it ends with %d and %s", code, said)
	}
}

// TestAnsweredForGood: only an error that is there at the next start, too, keeps an API from starting.
func TestAnsweredForGood(t *testing.T) {
	t.Parallel()
	for state, stays := range map[string]bool{
		"42501": true, "42883": true, "28P01": true, "28000": true, "RH010": true, "3D000": true,
		"25006": false, "25P03": false, "25P02": false, "08P01": false, "40001": false, "53300": false, "53100": false,
		"55P03": false, "57P01": false, "57014": false, "58030": false, "": false,
	} {
		var err error = &pgconn.PgError{Code: state, Severity: "FATAL"}
		if state == "" {
			err = io.ErrUnexpectedEOF
		}
		if got := answered(fmt.Errorf("looking for second keys: %w", err)); got != stays {
			t.Errorf("%q: %t", state, got)
		}
	}
}
