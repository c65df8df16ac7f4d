package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// hold keeps each statement of a kind on a token waiting in a cell until release is called.
func (w *cellWorld) hold(t *testing.T, name, statement string) (release func()) {
	t.Helper()
	cell := w.cells[name]
	cell.Exec(`CREATE OR REPLACE FUNCTION public.held() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0
		AS 'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END'`)
	cell.Exec(`CREATE OR REPLACE TRIGGER held BEFORE ` + statement + ` ON railhead.payment_api_tokens
		FOR EACH ROW EXECUTE FUNCTION public.held()`)
	holder := cell.Conn(t, "")
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock(4711)`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_unlock(4711)`); err != nil {
			t.Fatal(err)
		}
	}
}

// isHeld waits until an act is held in a cell.
func (w *cellWorld) isHeld(t *testing.T, name string) {
	t.Helper()
	eventually(t, "an act is held in "+name, func() bool {
		return w.cells[name].Int(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
	})
}

// left waits until no command has a session in a cell.
func (w *cellWorld) left(t *testing.T, name string) {
	t.Helper()
	eventually(t, "every command has left "+name, func() bool {
		return w.cells[name].Int(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'railhead-cli'`) == 0
	})
}

// inForce is the number of tokens that are in force in a cell.
func (w *cellWorld) inForce(name string) int {
	return w.cells[name].Int(`SELECT count(*) FROM railhead.payment_api_tokens WHERE revoked_at IS NULL`)
}

// newToken puts a token in force in cells, and returns its id.
func (w *cellWorld) newToken(t *testing.T, list string) (id string) {
	t.Helper()
	command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}.want(exitOK, newTokenIn(list)...)
	w.cells["east"].QueryRow(`SELECT token_id FROM railhead.payment_api_tokens ORDER BY created_at DESC LIMIT 1`, nil, &id)
	return id
}

func newTokenIn(list string) []string {
	return []string{"token", "create", "--name", "shop", "--participant", "p1", "--expires-in", "1h", "--reason", "a test",
		"--cells", list}
}

func copyToken(id, reason string) []string {
	return []string{"token", "copy", id, "--cells", "EAST,WEST", "--reason", reason}
}

func revokeToken(id, list string) []string {
	return []string{"token", "revoke", id, "--reason", "a test", "--cells", list}
}

// behind runs a command while the test goes on; answer waits for its end, which must come within a time.
func (c command) behind(args ...string) (answer func() ran) {
	c.t.Helper()
	got := make(chan ran, 1)
	go func() { got <- c.run(args...) }()
	return func() (one ran) {
		c.t.Helper()
		select {
		case one = <-got:
		case <-time.After(3 * cellWithin):
			c.t.Fatalf("%v has not ended", args)
		}
		return one
	}
}

// wants fails the test unless a run ended with a code and wrote each text, one after the other.
func (r ran) wants(t *testing.T, code int, texts ...string) {
	t.Helper()
	rest, found := r.out+r.errors, true
	for _, text := range texts {
		if _, rest, found = strings.Cut(rest, text); !found {
			t.Errorf("it does not say %q, or not there: %s%s", text, r.out, r.errors)
		}
	}
	if r.code != code {
		t.Errorf("exit code %d, want %d: %s%s", r.code, code, r.out, r.errors)
	}
}

// TestTokenRevokedWhileItIsCopied: a token that is revoked in all cells is in force in none, also if it is copied into
// one meanwhile.
func TestTokenRevokedWhileItIsCopied(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	admin := command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}
	operator := command{t: t, env: w.inCells("RAILHEAD_OPERATOR_URL", celltest.Operator)}
	none := func(t *testing.T) {
		t.Helper()
		if w.inForce("east") != 0 || w.inForce("west") != 0 {
			t.Errorf("%d tokens are in force in east, %d in west", w.inForce("east"), w.inForce("west"))
		}
	}
	// It has not reached the table: what has is waited for.
	for name, killedAt := range map[string]string{"the copy has read": "none",
		"the copy has read, and is killed": "create_api_token", "the copy has read, and is killed later": "commit"} {
		t.Run(name, func(t *testing.T) {
			id, reached, goOn := w.newToken(t, "EAST"), make(chan bool), make(chan bool)
			all, got := w.admins(t, &wires{write: func(setting, statement string) bool {
				if setting == "WEST" && strings.Contains(statement, "create_api_token") {
					reached <- true
					<-goOn
				}
				return setting == "WEST" && strings.Contains(statement, killedAt)
			}}), make(chan ran, 1)
			go func() {
				got <- inProcess(t, func(cmd *cobra.Command) error {
					return copyWith(cmd, id, "a test", all, []string{"EAST", "WEST"})
				})
			}()
			select {
			case <-reached:
			case <-time.After(cellWithin):
				t.Fatal("the copy puts nothing in force")
			}
			operator.want(exitOK, revokeToken(id, "EAST,WEST")...)
			close(goOn)
			// It does not commit, so that it is not killed there.
			if copied := <-got; killedAt != "create_api_token" {
				copied.wants(t, exitNotAllowed, "was revoked in EAST meanwhile, and is revoked where this command had put it")
			}
			for _, each := range all {
				each.close(context.Background()) //nolint:errcheck // the command is over
			}
			w.left(t, "west")
			none(t)
		})
	}
	t.Run("the copy inserts", func(t *testing.T) {
		id, release := w.newToken(t, "EAST"), w.hold(t, "west", "INSERT")
		copying := admin.behind(copyToken(id, "a test")...)
		w.isHeld(t, "west")
		revoking := operator.behind(revokeToken(id, "EAST,WEST")...)
		eventually(t, "it is revoked in east", func() bool { return w.inForce("east") == 0 })
		release()
		revoking().wants(t, exitOK, "cell EAST: token "+id+" is revoked", "cell WEST: ")
		copying().wants(t, exitNotAllowed, "was revoked in EAST")
		none(t)
		w.cells["west"].Exec(`DROP TRIGGER held ON railhead.payment_api_tokens`)
	})
	t.Run("the revocation has looked", func(t *testing.T) {
		id, release := w.newToken(t, "EAST"), w.hold(t, "east", "UPDATE")
		w.cells["west"].Exec(`CREATE SEQUENCE public.looks`)
		w.cells["west"].Exec(`CREATE FUNCTION public.looked() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
			AS 'BEGIN PERFORM nextval(''public.looks''); RETURN NULL; END'`)
		w.cells["west"].Exec(`CREATE TRIGGER looked BEFORE UPDATE ON railhead.payment_api_tokens
			FOR EACH STATEMENT EXECUTE FUNCTION public.looked()`)
		revoking := operator.behind(revokeToken(id, "WEST,EAST")...)
		eventually(t, "it has looked in west", func() bool {
			return w.cells["west"].Int(`SELECT is_called::integer FROM public.looks`) == 1
		})
		w.left(t, "west")
		w.isHeld(t, "east")
		admin.want(exitOK, copyToken(id, "a test")...)
		release()
		revoking().wants(t, exitOK, "cell WEST: token "+id+" is revoked", "cell EAST: token "+id+" is revoked")
		none(t)
	})
}

// TestTokenRevokedWhileItIsCreated: a token whose first commit waits, such as for a standby, is printed already. Its
// revocation waits for that commit, whether or not the creation is killed, and says so where it does not end.
func TestTokenRevokedWhileItIsCreated(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	admin := command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}
	operator := command{t: t, env: w.inCells("RAILHEAD_OPERATOR_URL", celltest.Operator)}
	for n, ends := range []string{"goes on", "alone", "killed", "killed, and waits on"} {
		release := w.hold(t, "east", "INSERT")
		w.cells["east"].Exec(`DROP TRIGGER held ON railhead.payment_api_tokens`)
		if n == 0 {
			w.cells["east"].Exec(`CREATE CONSTRAINT TRIGGER held_commit AFTER INSERT ON railhead.payment_api_tokens
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.held()`)
		}
		creating := admin.process(append(newTokenIn("EAST,WEST"), "-o", "json")...)
		out, err := creating.StdoutPipe()
		if err == nil {
			err = creating.Start()
		}
		var printed struct {
			TokenID string `json:"token_id"`
		}
		if err == nil {
			err = json.NewDecoder(out).Decode(&printed)
		}
		if err != nil || printed.TokenID == "" {
			t.Fatalf("%s: %+v, %v", ends, printed, err)
		}
		w.isHeld(t, "east")
		if strings.HasPrefix(ends, "killed") {
			creating.Process.Kill() //nolint:errcheck // it is held
		}
		id := printed.TokenID
		if ends == "killed, and waits on" {
			operator.behind(revokeToken(id, "EAST,WEST")...)().wants(t, exitPartial, "cell EAST: not known: ",
				"another session is putting a token in force", "cell WEST: there is no token "+id,
				"may be in force in EAST: repeat")
		}
		as, args := operator, revokeToken(id, "EAST,WEST")
		alone := command{t: t, env: []string{"RAILHEAD_OPERATOR_URL=" + w.cells["east"].URL(celltest.Operator)}}
		switch ends {
		case "alone":
			as, args = alone, args[:len(args)-2]
		case "killed, and waits on":
			alone.behind(args[:len(args)-2]...)().wants(t, exitPartial, "has no token "+id+", but may be putting it in force: "+
				"repeat the command", "another session is putting a token in force")
		}
		revoking := as.behind(args...)
		looks := map[string]bool{}
		eventually(t, "the revocation waits for one that "+ends, func() bool {
			var at string
			w.cells["east"].QueryRow(`SELECT coalesce(max(state_change)::text, '') FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'railhead-cli' AND query = 'COMMIT'`, nil, &at)
			looks[at] = true
			return len(looks) > 4 // it reads again and again
		})
		release()
		revoking().wants(t, exitOK, "token "+id+" is revoked")
		creating.Wait() //nolint:errcheck // it was killed, or has found the revocation, or has not
		w.left(t, "west")
		if ends == "alone" && w.inForce("east") == 0 { // the creation may have gone on in west
			operator.want(exitOK, revokeToken(id, "EAST,WEST")...)
		}
		if east, west := w.inForce("east"), w.inForce("west"); east != 0 || west != 0 {
			t.Errorf("%s: %d tokens are in force in east, %d in west", ends, east, west)
		}
	}
}

// TestTokenRevokedWhereACopyIsKilled: a revocation waits for a copy that was killed while the server inserts, and
// says so where it does not end.
func TestTokenRevokedWhereACopyIsKilled(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	admin := command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}
	operator := command{t: t, env: w.inCells("RAILHEAD_OPERATOR_URL", celltest.Operator)}
	id, release := w.newToken(t, "EAST"), w.hold(t, "west", "INSERT")
	copying := admin.process(copyToken(id, "a test")...)
	if err := copying.Start(); err != nil {
		t.Fatal(err)
	}
	w.isHeld(t, "west")
	copying.Process.Kill() //nolint:errcheck // it is held
	copying.Wait()         //nolint:errcheck // it was killed
	operator.behind(revokeToken(id, "EAST,WEST")...)().wants(t, exitPartial, "cell EAST: token "+id+" is revoked",
		"cell WEST: not known: ", "another session is putting a token in force",
		"may be in force in WEST: repeat the command")
	release()
	operator.want(exitOK, revokeToken(id, "EAST,WEST")...)
	w.left(t, "west")
	if w.inForce("west") != 0 {
		t.Error("the token is in force in west")
	}
}

// TestTokenWhereACellHangs: a cell that does not answer keeps a token in force in no other one, and no command waiting.
func TestTokenWhereACellHangs(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	admin := command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}
	operator := command{t: t, env: w.inCells("RAILHEAD_OPERATOR_URL", celltest.Operator)}
	id := w.newToken(t, "EAST,WEST")
	release := w.hold(t, "east", "UPDATE")
	w.hold(t, "north", "INSERT")
	locked := w.cells["west"].Conn(t, "")
	revoking := operator.behind(revokeToken(id, "EAST,WEST")...)
	w.isHeld(t, "east")
	began := time.Now()
	eventually(t, "it is revoked in west", func() bool { return w.inForce("west") == 0 })
	if took := time.Since(began); took > cellWithin/2 {
		t.Errorf("it was revoked in west %s after it was held in east", took)
	}
	creating := admin.behind(newTokenIn("WEST,NORTH")...)
	w.isHeld(t, "north")
	tx, err := locked.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `LOCK railhead.payment_api_tokens`)
	}
	if err != nil {
		t.Fatal(err)
	}
	copying := admin.behind(copyToken(id, "a test")...)
	copying().wants(t, exitFailure, "cell WEST: reading token "+id, "lock timeout")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	creating().wants(t, exitPartial, "cell NORTH: not known: it has not ended within 15s",
		"is not known to be in force in NORTH: complete it with railhead token copy ", " --cells WEST,NORTH ")
	revoking().wants(t, exitPartial, "cell EAST: not known: it is not known whether the token is in force there, repeat "+
		"the command: it has not ended within 15s", "cell WEST: token "+id+" is revoked",
		"may be in force in EAST: repeat the command")
	release()
	operator.behind(revokeToken(id, "EAST,WEST")...)().wants(t, exitOK, "cell EAST: token "+id)
	if w.inForce("east") != 0 {
		t.Error("it is in force in east")
	}
}

// TestTokenRevokeNamesCellsNotAsked: a revocation that leaves out a cell of the directory says so, and is not whole.
func TestTokenRevokeNamesCellsNotAsked(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	acts := w.at("east")
	w.said(acts.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow"))
	for _, name := range []string{"west", "north"} {
		w.said(acts.want(exitOK, "cell", "add", name, "--setting", strings.ToUpper(name), "--reason", "we grow"))
	}
	id := w.newToken(t, "EAST,WEST,NORTH")
	acts.run("token", "revoke", id, "--reason", "a test").wants(t, exitOK, "token "+id+" is revoked in this cell\n")
	acts.run(revokeToken(id, "EAST,WEST")...).wants(t, exitPartial, "cell EAST: token "+id+" was revoked already\n",
		"cell WEST: token "+id+" is revoked\n", "cell NORTH was not asked: token "+id+" may be in force there\n",
		"token "+id+" may be in force in NORTH, which --cells leaves out: repeat the command with all cells of the directory")
	acts.run(append(revokeToken(id, "EAST,WEST"), "-o", "json")...).wants(t, exitPartial, `"not_asked"`, `"NORTH"`)
	acts.run(revokeToken("none", "WEST")...).wants(t, exitPartial, "cell EAST was not asked", "cell NORTH was not asked")
	if w.inForce("west") != 0 || w.inForce("north") != 1 {
		t.Errorf("%d tokens are in force in west, %d in north", w.inForce("west"), w.inForce("north"))
	}
	acts.run(revokeToken(id, "EAST,WEST,NORTH")...).wants(t, exitOK, "cell NORTH: token "+id+" is revoked\n")
	acts.want(exitNotFound, revokeToken("none", "EAST,WEST,NORTH")...)
}
