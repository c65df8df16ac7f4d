package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

// TestStoppedMigrateSaysWhatStands ends migrate up by Ctrl-C while it waits for a lock: it says how
// far it came, and the cell is there.
func TestStoppedMigrateSaysWhatStands(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	who := command{t: t, env: []string{"RAILHEAD_ADMIN_URL=" + db.URL("")}}
	who.want(exitOK, "roles", "apply")
	cmd := who.process("migrate", "up")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()

	holder := db.Conn(t, "")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE railhead.payment_outbox_attempts IN SHARE MODE")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the table of the baseline is not there: %v", err)
		}
		if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	for part := make([]byte, 4096); ; {
		n, err := read.Read(part)
		said.Write(part[:n])
		if err != nil {
			break // it has ended
		}
		if strings.Contains(said.String(), "again in ") {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("it ends well: %s", said.String())
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(said.String(), ", which stay; what is left: railhead migrate status")
	if !found {
		t.Fatalf("it says %s", said.String())
	}
	last := before[strings.LastIndex(before, " ")+1:]
	status := who.want(exitOK, "migrate", "status", "-o", "json").out
	var applied []string
	for row := range strings.SplitSeq(status, "}") {
		if strings.Contains(row, `"applied":true`) || strings.Contains(row, `"applied": true`) {
			applied = append(applied, row)
		}
	}
	if len(applied) == 0 || !strings.Contains(applied[len(applied)-1], last) {
		t.Errorf("it says that %s was the last one, and the status is %s", last, status)
	}
	who.want(exitOK, "migrate", "up")
}
