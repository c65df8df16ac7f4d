package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// inCells adds the connection strings of a login in every cell.
func (w *cellWorld) inCells(variable, login string) (env []string) {
	for name, cell := range w.cells {
		env = append(env, variable+"_"+strings.ToUpper(name)+"="+cell.URL(login))
	}
	return env
}

// TestTokenInCells puts one token in force in two cells, also where the first command was broken off between them, and
// revokes it in both, also while one is away. The token itself is printed once, and stored nowhere.
func TestTokenInCells(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	admin := command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}
	operator := command{t: t, env: w.inCells("RAILHEAD_OPERATOR_URL", celltest.Operator)}
	create := []string{"token", "create", "--name", "shop", "--participant", "p1,p2", "--requests-per-minute", "600",
		"--expires-in", "1h", "--reason", "a test", "--cells"}
	rows := func(name string) int {
		return w.cells[name].Int(`SELECT count(*) FROM railhead.payment_api_tokens WHERE name = 'shop'
			AND participants = '{p1,p2}' AND verbs = '{ENQUEUE,READ}' AND requests_per_minute = 600 AND revoked_at IS NULL`)
	}
	idOf := func(name string) (id string) {
		w.cells[name].QueryRow(`SELECT token_id FROM railhead.payment_api_tokens ORDER BY created_at DESC LIMIT 1`, nil, &id)
		return id
	}

	made := admin.want(exitOK, append(create, "EAST,WEST")...)
	token := strings.TrimSpace(made.out)
	if !strings.HasPrefix(token, "rht_") || len(token) != 47 || strings.Contains(made.errors, token) {
		t.Fatalf("made %q, and said %s", made.out, made.errors)
	}
	id := idOf("east")
	if rows("east") != 1 || rows("west") != 1 || rows("north") != 0 || idOf("west") != id {
		t.Errorf("east has %d, west %d, north %d", rows("east"), rows("west"), rows("north"))
	}
	for _, line := range []string{"cell EAST: token " + id + " is in force", "cell WEST: token " + id + " is in force"} {
		if !strings.Contains(made.errors, line) {
			t.Errorf("it does not say %q: %s", line, made.errors)
		}
	}
	// A cell that can't be reached keeps it from being made at all.
	away := command{t: t, env: append(admin.env, "RAILHEAD_ADMIN_URL_WEST=postgres://away@127.0.0.1:1/none")}
	if got := away.want(exitUnreachable, append(create, "EAST,WEST")...); got.out != "" || rows("east") != 1 {
		t.Errorf("with a cell away it made %q", got.out)
	}
	for _, wrong := range []string{"east", "EAST,EAST", "EAST,SOUTH"} {
		if got := admin.want(exitUsage, append(create, wrong)...); got.out != "" || rows("east") != 1 {
			t.Errorf("with --cells %s it made %q", wrong, got.out)
		}
	}

	// It is broken off between the cells: the second one refuses, and is completed by the same token.
	w.cells["west"].Exec(`ALTER TABLE railhead.payment_api_tokens ADD CONSTRAINT none CHECK (name <> 'shop') NOT VALID`)
	half := admin.want(exitPartial, append(create, "EAST,WEST", "-o", "json")...)
	var shown struct {
		Token string `json:"token"`
		ID    string `json:"token_id"`
	}
	if err := json.Unmarshal([]byte(half.out), &shown); err != nil || !strings.HasPrefix(shown.Token, "rht_") ||
		rows("east") != 2 || rows("west") != 1 {
		t.Fatalf("half made: %v, %s", err, half.out)
	}
	again := "railhead token copy " + shown.ID + " --cells EAST,WEST"
	if !strings.Contains(half.errors, "is not known to be in force in WEST") || !strings.Contains(half.errors, again) ||
		strings.Contains(half.errors, shown.Token) {
		t.Errorf("half made, it said %s", half.errors)
	}
	w.cells["west"].Exec(`ALTER TABLE railhead.payment_api_tokens DROP CONSTRAINT none`)
	for n, line := range []string{"cell WEST: token " + shown.ID + " is in force", "cell WEST: token " + shown.ID +
		" was in force already"} {
		got := admin.want(exitOK, "token", "copy", shown.ID, "--cells", "EAST,WEST", "--reason", "a test")
		if !strings.Contains(got.out, line) || rows("east") != 2 || rows("west") != 2 {
			t.Errorf("copy %d: %s", n+1, got.out)
		}
	}
	if got := w.cells["west"].Int(`SELECT count(*) FROM railhead.payment_api_tokens
		WHERE token_digest = sha256(sha256(convert_to($1, 'UTF8')))`, shown.Token); got != 1 {
		t.Error("the text that was printed is not that of the token in west")
	}
	admin.want(exitNotFound, "token", "copy", "none", "--cells", "EAST,WEST", "--reason", "a test")
	command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", celltest.Operator)}.want(exitDenied, "token", "copy", shown.ID,
		"--cells", "EAST,WEST", "--reason", "a test")

	// A revocation reaches the cells that are there, and names the one that it did not.
	revoke := []string{"token", "revoke", shown.ID, "--reason", "a test", "--cells"}
	gone := command{t: t, env: append(operator.env, "RAILHEAD_OPERATOR_URL_EAST=postgres://away@127.0.0.1:1/none")}
	if got := gone.want(exitPartial, append(revoke, "EAST,WEST")...); !strings.Contains(got.errors,
		"may be in force in EAST: repeat the command") ||
		!strings.Contains(got.out, "cell WEST: token "+shown.ID+" is revoked") ||
		rows("east") != 2 || rows("west") != 1 {
		t.Errorf("with east away: %s%s", got.out, got.errors)
	}
	got := admin.want(exitNotAllowed, "token", "copy", shown.ID, "--cells", "EAST,WEST", "--reason", "a test")
	if !strings.Contains(got.errors, "is revoked") || rows("west") != 1 {
		t.Errorf("a copy of what is revoked in one: %s", got.errors)
	}
	got = operator.want(exitOK, append(revoke, "EAST,WEST,NORTH")...)
	for _, line := range []string{"cell EAST: token " + shown.ID + " is revoked\n", "cell WEST: token " + shown.ID +
		" was revoked already\n", "cell NORTH: there is no token " + shown.ID + "\n"} {
		if !strings.Contains(got.out, line) {
			t.Errorf("it does not say %q: %s", line, got.out)
		}
	}
	if rows("east") != 1 || rows("west") != 1 {
		t.Errorf("east has %d, west %d", rows("east"), rows("west"))
	}
	operator.want(exitNotFound, "token", "revoke", "none", "--cells", "EAST,WEST", "--reason", "a test")
}

// TestTokenWhereASettingLeadsElsewhere: what another cell's database says is not taken for the cell's own answer.
func TestTokenWhereASettingLeadsElsewhere(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	acts := w.at("east")
	w.said(acts.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow"))
	w.said(acts.want(exitOK, "cell", "add", "west", "--setting", "WEST", "--reason", "we grow"))
	admin := command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}
	create := []string{"token", "create", "--name", "shop", "--participant", "p1", "--expires-in", "1h", "--reason",
		"a test", "--cells", "EAST,WEST"}
	admin.want(exitOK, create...)
	var id string
	w.cells["west"].QueryRow(`SELECT token_id FROM railhead.payment_api_tokens`, nil, &id)
	const advice = "_WEST leads to the cell that has setting EAST in its map: correct the variable"
	swapped := command{t: t, env: append(acts.env, "RAILHEAD_OPERATOR_URL_WEST="+w.cells["east"].URL(celltest.Operator))}
	if got := swapped.want(exitPartial, "token", "revoke", id, "--reason", "a test", "--cells",
		"EAST,WEST"); !strings.Contains(got.errors, "RAILHEAD_OPERATOR_URL"+advice) {
		t.Errorf("revoke: %s%s", got.out, got.errors)
	}
	if n := w.cells["west"].Int(`SELECT count(*) FROM railhead.payment_api_tokens WHERE revoked_at IS NULL`); n != 1 {
		t.Errorf("%d tokens are in force in west", n)
	}
	swapped = command{t: t, env: append(admin.env, "RAILHEAD_ADMIN_URL_WEST="+w.cells["east"].URL(""))}
	if got := swapped.want(exitUsage, create...); !strings.Contains(got.errors, "RAILHEAD_ADMIN_URL"+advice) {
		t.Errorf("create: %s%s", got.out, got.errors)
	}
}

// TestWithdrawLeavesOtherRights: a token that a copy has refused to change is not revoked by it either.
func TestWithdrawLeavesOtherRights(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	list := []string{"EAST", "WEST"}
	command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}.want(exitOK, "token", "create", "--name", "shop",
		"--participant", "p1", "--expires-in", "1h", "--reason", "a test", "--cells", "EAST,WEST")
	var id string
	w.cells["east"].QueryRow(`SELECT token_id FROM railhead.payment_api_tokens`, nil, &id)
	command{t: t, env: w.inCells("RAILHEAD_OPERATOR_URL", celltest.Operator)}.want(exitOK, "token", "revoke", id,
		"--reason", "a test", "--cells", "EAST")
	var all []adminCell
	for _, setting := range list {
		cell := w.cells[strings.ToLower(setting)]
		config, err := pgx.ParseConfig(cell.URL(""))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, adminCell{setting: setting, schema: cell.Schema, conn: cell.Conn(t, ""),
			standby: watchStandby(config)})
	}
	act := tokenAct{TokenID: id, Cells: []tokenInCell{{Cell: "EAST", Now: inForce},
		{Cell: "WEST", Now: notKnown, Error: "it has other rights there", refused: true}}}
	if err := act.withdraw(t.Context(), all, "a test", list); !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("it says %v, want %v", err, outbox.ErrNotAllowed)
	}
	if n := w.cells["west"].Int(`SELECT count(*) FROM railhead.payment_api_tokens WHERE revoked_at IS NULL`); n != 1 {
		t.Error("the token in west was revoked")
	}
}
