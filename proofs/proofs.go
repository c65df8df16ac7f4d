// Package proofs shows about a live cell, production included, what Railhead
// promises: who may do what, that the ledger is append-only and complete, that
// numbers have no gaps, that nothing is lost or taken twice, that no amount or
// payee was changed.
//
// A proof reads and compares; none changes anything. Most need no more than the
// rights of railhead_auditor. Those that try what must be refused do so inside a
// transaction that is always rolled back, and only where the caller asks for it.
//
// Every proof has its counter-proof: offences.yaml lists ways to break a cell,
// and the proof that must notice each of them.
package proofs

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql sql/parts/*.sql sql/violations/*.sql
var files embed.FS

// Proof is one thing that can be shown about a cell. Exactly one of the
// functions that do it is set.
type Proof struct {
	Name     string
	Promise  string // the promise that it is about, in the words of docs/audit.md
	Shows    string // one sentence
	Expected string
	Counts   string   // what one of its rows is, where its statements do not say that themselves
	Reads    []string // tables that the login must be able to read; table.column where one column is enough
	Executes []string // functions that it must be able to execute
	// Statements are the files under sql/ that it runs.
	Statements []string
	// RunAs is whose rights are enough for it: a role of the matrix, or "superuser".
	RunAs string
	// Tries is set where it shows nothing without trying: it runs on request only,
	// and as a superuser.
	Tries bool
	// Ledger is set where it looks at instructions, and not at the catalog.
	Ledger bool

	script      script // the same for psql
	whole       func(ctx context.Context, s *session, t *tally) error
	page        func(ctx context.Context, s *session, tx pgx.Tx, p page, t *tally) error
	instruction func(i *instruction, o Options, t *tally)
}

// The promises, as docs/audit.md numbers them. Roles come before all: the others
// hold because no role may do otherwise.
const (
	roles       = "0 roles"
	nothingLost = "1 nothing is lost"
	paidOnce    = "2 nothing is paid twice"
	silence     = "3 silence proves nothing"
	appendOnly  = "4 append-only and complete"
	strict      = "5 sequence is strict"
)

// All lists every proof, in the order in which they run and are reported.
func All() []Proof {
	all := slices.Concat(rightsProofs(), guardProofs(), triedProofs(), archiveProofs(), contentProofs(), streamProofs())
	for n := range all {
		if all[n].RunAs == "" {
			all[n].RunAs = asAuditor
		}
	}
	return all
}

// Named picks proofs by name, all of them for none.
func Named(names []string) ([]Proof, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var picked []Proof
	for _, proof := range all {
		if slices.Contains(names, proof.Name) {
			picked = append(picked, proof)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p Proof) bool { return p.Name == name }) {
			return nil, fmt.Errorf("%w: %q", ErrNoProof, name)
		}
	}
	return picked, nil
}

// These stand among the statements of a proof for comparisons that other packages
// make, with statements of their own: acl/sql/*.sql and migrations/dump.sql.
const (
	matrixComparison = "railhead roles diff"
	schemaComparison = "migrations/dump.sql"
)

// statement reads one of the embedded files. That each name exists is a test's
// business, so that nothing here has to fail.
func statement(name, cell string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "{cell}", cell)
}

// tally is what one proof has seen so far.
type tally struct {
	rows     int64
	seen     string
	offences int
	first    []string // the first offences, at most as many as are shown
	shown    int
	notes    []string
	logins   []string // as login=role; all of them, for the auditor to compare
	noted    int      // notes in all, those beyond notesKept included
}

const (
	// offencesShown bounds how many offences of one proof a report names.
	offencesShown = 20
	// notesKept bounds its notes. A report says how many more there are. It is high, because
	// each may be the one resolution among many that was false.
	notesKept = 10_000
)

func (t *tally) offend(format string, args ...any) {
	t.offences++
	if len(t.first) < t.shown {
		t.first = append(t.first, plain(fmt.Sprintf(format, args...)))
	}
}

func (t *tally) note(text string) {
	t.noted++
	if len(t.notes) < notesKept {
		t.notes = append(t.notes, plain(text))
	}
}

// catalogue runs a statement that judges by itself: each row is what was looked
// at ("seen"), a login of a role, an offence, or a note that makes nothing fail.
func catalogue(ctx context.Context, s *session, t *tally, name string, args ...any) error {
	return s.read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.sql(name), args...)
		if err != nil {
			return err
		}
		var what, line string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&what, &line, &n}, func() error {
			switch what {
			case "seen":
				t.seen, t.rows = line, t.rows+n
			case "note":
				t.note(line)
			case "login":
				t.logins = append(t.logins, plain(line))
			default:
				t.offend("%s", line)
			}
			return nil
		})
		return err
	})
}

// judged is a proof of one such statement.
func judged(name string) func(context.Context, *session, *tally) error {
	return func(ctx context.Context, s *session, t *tally) error { return catalogue(ctx, s, t, name) }
}
