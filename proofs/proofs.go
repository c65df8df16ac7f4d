// Package proofs shows on a live cell, production included, that Railhead keeps its
// promises: the rights of each role, that the ledger is append-only and complete, that
// numbers have no gaps, that no payment is lost or made twice, and that no amount or
// payee was changed.
//
// A proof reads and compares, and changes nothing. Most need only the
// rights of railhead_auditor. Those that attempt what must be refused do so inside a
// transaction that is always rolled back, and only on request.
//
// Every proof has a counter-proof: offences.yaml lists ways to break a cell,
// and the proof that must find each of them.
package proofs

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/payment"
)

//go:embed sql/*.sql sql/parts/*.sql sql/violations/*.sql
var files embed.FS

// Proof is one statement about a cell that can be shown. Exactly one of the functions
// whole, page and instruction is set.
type Proof struct {
	Name     string
	Promise  string // its promise, in the words of docs/audit.md
	Shows    string // one sentence
	Expected string
	Counts   string   // the unit of its rows, unless its statements name it
	Reads    []string // tables that the login must be able to read; table.column where one column is enough
	Executes []string // functions that it must be able to execute
	// Statements are the files under sql/ that it runs.
	Statements []string
	// RunAs is the role of the matrix whose rights it needs, or "superuser".
	RunAs string
	// Tries is set if it needs attempts: it runs on request only, and as a superuser.
	Tries bool
	// Ledger is set if it reads instructions, and not the catalog.
	Ledger bool

	script      script // the same for psql
	whole       func(ctx context.Context, s *session, t *tally) error
	page        func(ctx context.Context, s *session, tx pgx.Tx, p page, t *tally) error
	instruction func(i *instruction, o Options, t *tally)
}

// The promises, as docs/audit.md numbers them. Roles come first: the other promises
// hold because no role has the rights to break them.
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

// These names in the statements of a proof are comparisons by other packages, with
// statements of their own: acl/sql/*.sql and migrations/dump.sql.
const (
	matrixComparison = "railhead roles diff"
	schemaComparison = "migrations/dump.sql"
)

// statement returns the text of an embedded file, for a cell, and with the characters that a reader does not see. A
// test checks that each name exists, so it returns no error.
func statement(name, cell string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer("{cell}", cell, "{unseen}", payment.UnseenClass(), "{blanks}", payment.BlankClass()).
		Replace(string(text))
}

// tally is the result of one proof so far.
type tally struct {
	rows     int64
	seen     string
	offences int
	first    []string // the first violations, at most shown of them
	shown    int
	notes    []string
	logins   []string       // as login=role; all of them, for the auditor to compare
	noted    int            // notes in all, those that are not kept included
	notedOf  map[string]int // the same by rail, of those that noteOf takes
}

const (
	// offencesShown bounds the violations of one proof that a report names.
	offencesShown = 20
	// notesKept bounds its notes; a report has the number of the others. It is high, because
	// each may be the one false resolution among many.
	notesKept = 10_000
	// notesOfRail bounds the notes of one rail, where each of its payments may have one.
	notesOfRail = 1_000
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

// noteOf is a note about a rail. One rail that has many leaves room for those of others.
func (t *tally) noteOf(rail, text string) {
	if t.notedOf == nil {
		t.notedOf = make(map[string]int)
	}
	if t.notedOf[rail]++; t.notedOf[rail] > notesOfRail {
		t.noted++
		return
	}
	t.note(text)
}

// catalogue runs a statement that returns its own findings: each row is a summary
// ("seen"), a login of a role, a violation ("offence"), or a note, which fails no proof.
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

// judged is a proof that runs one such statement.
func judged(name string) func(context.Context, *session, *tally) error {
	return func(ctx context.Context, s *session, t *tally) error { return catalogue(ctx, s, t, name) }
}
