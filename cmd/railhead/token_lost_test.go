package main

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// wires are the connections of an administrator's command to cells.
type wires struct {
	ended atomic.Bool // all of them, as with the process
	// read is called with what was read. If it returns true, this connection ends.
	read func(setting string, b []byte) bool
	// write is called before a statement is executed, with its text. If it returns true, the process ends once that
	// was sent.
	write func(setting, statement string) bool
}

// wire is one of them.
type wire struct {
	net.Conn
	of                *wires
	setting, prepared string
	ended             bool
}

func (w *wire) Read(b []byte) (int, error) {
	if w.ended || w.of.ended.Load() {
		return 0, net.ErrClosed
	}
	n, err := w.Conn.Read(b)
	w.ended = w.of.read != nil && w.of.read(w.setting, b[:n])
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	statement := w.prepared
	switch w.prepared = ""; {
	case len(b) > 0 && b[0] == 'P': // Parse
		w.prepared = string(b)
	case len(b) > 0 && b[0] == 'Q': // Query
		statement = string(b)
	}
	last := statement != "" && w.of.write != nil && w.of.write(w.setting, statement)
	if w.ended || w.of.ended.Load() {
		return 0, net.ErrClosed
	}
	n, err := w.Conn.Write(b)
	if last {
		w.of.ended.Store(true)
		w.Conn.Close() //nolint:errcheck // as the end of a process does
	}
	return n, err
}

// admins are the sessions of an administrator's command in east and west.
func (w *cellWorld) admins(t *testing.T, over *wires) (all []adminCell) {
	t.Helper()
	for _, setting := range []string{"EAST", "WEST"} {
		cell := w.cells[strings.ToLower(setting)]
		config, err := pgx.ParseConfig(cell.URL(""))
		if err != nil {
			t.Fatal(err)
		}
		config.RuntimeParams["application_name"] = "railhead-cli"
		dial := config.DialFunc
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &wire{Conn: conn, of: over, setting: setting}, err
		}
		one := adminCell{setting: setting, schema: cell.Schema, standby: watchStandby(config)}
		if one.conn, err = pgx.ConnectConfig(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { one.close(context.Background()) }) //nolint:errcheck // the test is over
		all = append(all, one)
	}
	return all
}

// inProcess runs do as a command.
func inProcess(t *testing.T, do func(cmd *cobra.Command) error) ran {
	var out, errs bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := do(cmd)
	if err != nil {
		report(&errs, err)
	}
	return ran{exitCode(err), out.String(), errs.String()}
}

// TestTokenCreateLosesTheFirstCell: where the first cell is lost right after its commit, or with it, the command names
// the cells that are not known to have the token, and what completes it.
func TestTokenCreateLosesTheFirstCell(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	create := func(over *wires) (got ran, id string) {
		all := w.admins(t, over)
		got = inProcess(t, func(cmd *cobra.Command) error {
			return createWith(cmd, operator.NewToken{Name: "shop", Participants: []string{"p1"}, Verbs: []string{"READ"},
				ExpiresAt: time.Now().Add(time.Hour), Reason: "a test"}, all, []string{"EAST", "WEST"})
		})
		_, rest, _ := strings.Cut(got.errors, "token copy ")
		id, _, _ = strings.Cut(rest, " ")
		return got, id
	}
	got, id := create(&wires{read: func(setting string, b []byte) bool {
		return setting == "EAST" && bytes.Contains(b, []byte("COMMIT\x00"))
	}})
	got.wants(t, exitPartial, "rht_", "cell EAST: token "+id+" is in force\n", "cell WEST: not known: ",
		"token "+id+" is not known to be in force in WEST: complete it with railhead token copy "+id+" --cells EAST,WEST ")
	if w.inForce("east") != 1 || w.inForce("west") != 0 {
		t.Errorf("%d tokens are in force in east, %d in west", w.inForce("east"), w.inForce("west"))
	}
	command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}.want(exitOK, copyToken(id, "a test")...)
	got, id = create(&wires{write: func(setting, statement string) bool {
		return setting == "EAST" && strings.Contains(statement, "commit")
	}})
	got.wants(t, exitPartial, "rht_", "token "+id+" was printed, and is not known to be in force in EAST, WEST: ",
		"shows it in EAST, complete it with railhead token copy "+id+" ")
}

// TestTokenRevokedWithoutASetting: a cell whose connection string is missing is one in which the token may be in force.
// That is said as of one that is away, because the token was revoked in the others.
func TestTokenRevokedWithoutASetting(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	id := w.newToken(t, "EAST,WEST")
	env := slices.DeleteFunc(w.inCells("RAILHEAD_OPERATOR_URL", celltest.Operator), func(one string) bool {
		return strings.HasPrefix(one, "RAILHEAD_OPERATOR_URL_WEST")
	})
	got := command{t: t, env: env}.want(exitPartial, revokeToken(id, "EAST,WEST,NORTH")...)
	east, west := w.inForce("east"), w.inForce("west")
	if !strings.Contains(got.out, "cell EAST: token "+id+" is revoked") || east != 0 || west != 1 {
		t.Errorf("%s\n%s\n%d are in force in east, %d in west", got.out, got.errors, east, west)
	}
}
