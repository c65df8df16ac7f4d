package proofs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// triedProofs are the proofs that need attempts.
func triedProofs() []Proof {
	return []Proof{
		{
			Name: "verbs", Promise: roles,
			Shows: "Every role, and a login with no role, tries every verb on every object: SELECT, INSERT, UPDATE, DELETE, " +
				"TRUNCATE, REFERENCES, " +
				"TRIGGER, EXECUTE, CREATE, COPY, LOCK; each column of its own",
			Expected: "success where the matrix grants it, otherwise 42501", Statements: []string{"sql/attempts.sql"},
			Tries: true,
			RunAs: asSuperuser, script: tried(everyVerb),
			whole: func(ctx context.Context, s *session, t *tally) error {
				return s.tryAll(ctx, t, func(attempt) bool { return true })
			},
		},
		{
			Name: "append-only", Promise: appendOnly,
			Shows: "UPDATE, DELETE and TRUNCATE of append-only tables, and TRUNCATE of all others, fail for every role, for " +
				"the owner and for a " +
				"superuser, in replica mode too, on every partition by its own name",
			Expected: "42501 for roles, P0001 for owner and superuser", Statements: []string{"sql/append_only.sql"}, Tries: true,
			RunAs: asSuperuser, script: tried(everyChange),
			whole: proveAppendOnly,
		},
		{
			Name: "tokens", Promise: roles,
			Shows: "With the login of the HTTP API and without a token no instruction can be enqueued, read or cancelled, " +
				"and with one participant's token " +
				"none of another participant, nor with one that has expired, was revoked or is valid for another act",
			Expected:   "success with the participant's own token only",
			Statements: []string{"sql/tokens_plant.sql", "sql/tokens.sql"}, Tries: true,
			RunAs: asSuperuser, script: tried(everyToken),
			whole: proveTokens,
		},
	}
}

// attempt is one statement that a role tries.
type attempt struct {
	Verb, Kind, Name, Col, Statement string
	Partition                        bool

	role string // "" is the superuser of the run
	prep string // runs before the statement, in the same rolled-back part
	want verdict
}

func (a attempt) String() string {
	who := a.role
	if who == "" {
		who = "a superuser"
	}
	if a.prep != "" {
		who += " in replica mode"
	}
	what := a.Kind + " " + a.Name
	if a.Col != "" {
		what += "." + a.Col
	}
	return fmt.Sprintf("%s, %s on %s", who, a.Verb, what)
}

// verdict is the required result of an attempt.
type verdict int

const (
	refused  verdict = iota // 42501
	allowed                 // any other result
	recorded                // P0001: the trigger that protects the record
)

// holds reports whether an SQLSTATE is the required result of the attempt.
func (a attempt) holds(state string) bool {
	switch {
	case a.want == recorded:
		return state == "P0001"
	case a.want == allowed:
		return state == "" || state == lockNotAvailable // locked by another session: the privilege was checked
	case a.Kind == "view":
		// A view that is not simple is refused by its kind, before the privilege is checked.
		return slices.Contains([]string{insufficientPrivilege, "55000", "42809", "0A000"}, state)
	default:
		return state == insufficientPrivilege
	}
}

// wanted is the result of an attempt that the matrix requires.
func (s *session) wanted(a attempt) verdict {
	held := func(privilege, column string) bool {
		for _, g := range s.matrix.Grants {
			if g.Role == a.role && g.Privilege == privilege && string(g.Object.Kind) == a.Kind && g.Object.Name == a.Name &&
				(g.Object.Column == "" || g.Object.Column == column || column == "*") {
				return true
			}
		}
		return false
	}
	when := func(is bool) verdict {
		if is {
			return allowed
		}
		return refused
	}
	if a.Partition {
		return refused // access goes through the parent
	}
	switch a.Verb {
	case "SELECT":
		if a.Col == "" {
			return when(held("SELECT", "*"))
		}
		return when(held("SELECT", a.Col))
	case "COPY TO":
		return when(held("SELECT", ""))
	case "COPY FROM":
		return when(held("INSERT", a.Col))
	case "LOCK":
		// The server's rule: a role that may update, delete from or truncate the table as a whole.
		return when(held("UPDATE", "") || held("DELETE", "") || held("TRUNCATE", ""))
	case "CREATE":
		return refused // schema and database: the matrix never grants it
	default:
		return when(held(a.Verb, a.Col))
	}
}

// tryTimeout bounds how long an attempt may wait for a lock, and others for it.
const tryTimeout = "200ms"

// origin is a proof by the catalog, and by attempts if they are requested and possible.
func origin(
	file string, args func(*session) []any, among func(attempt) bool,
) func(context.Context, *session, *tally) error {
	return func(ctx context.Context, s *session, t *tally) error {
		var given []any
		if args != nil {
			given = args(s)
		}
		if err := catalogue(ctx, s, t, file, given...); err != nil {
			return err
		}
		t.seen = "by catalog: " + t.seen
		if !s.options.Behaviour || !s.facts.Superuser || s.facts.Standby {
			return nil
		}
		catalog := t.seen
		if err := s.tryAll(ctx, t, among); err != nil {
			return err
		}
		t.seen = catalog + "; " + t.seen
		return nil
	}
}

// tryAll makes attempts as every role and as a login without a role.
func (s *session) tryAll(ctx context.Context, t *tally, among func(attempt) bool) error {
	return s.try(ctx, t, func(tx pgx.Tx, suffix string) ([]attempt, error) {
		outsider, scratch := "railhead_prove_outsider_"+suffix, "railhead_prove_"+suffix
		_, err := tx.Exec(ctx, fmt.Sprintf("CREATE ROLE %s; CREATE SCHEMA %s; GRANT USAGE, CREATE ON SCHEMA %[2]s TO "+
			"PUBLIC", outsider, scratch))
		if err != nil {
			return nil, fmt.Errorf("preparing the attempts: %w", err)
		}
		statements, err := s.attempts(ctx, tx, "attempts", scratch)
		if err != nil {
			return nil, err
		}
		var all []attempt
		for _, role := range append(s.services(), outsider) {
			for _, a := range statements {
				a.role = role
				a.want = s.wanted(a)
				if among(a) {
					all = append(all, a)
				}
			}
		}
		return all, nil
	})
}

// proveAppendOnly makes attempts as every role, and as the owner and a superuser, which no grant restricts.
func proveAppendOnly(ctx context.Context, s *session, t *tally) error {
	return s.try(ctx, t, func(tx pgx.Tx, _ string) ([]attempt, error) {
		statements, err := s.attempts(ctx, tx, "append_only")
		if err != nil {
			return nil, err
		}
		var all []attempt
		for _, a := range statements {
			for _, role := range s.services() {
				a.role, a.want = role, refused
				all = append(all, a)
			}
			a.role, a.want = s.matrix.Owner, recorded
			all = append(all, a)
			a.role = ""
			all = append(all, a)
			a.prep = replicaMode + "; "
			all = append(all, a)
		}
		return all, nil
	})
}

// proveTokens calls as the role of the HTTP API, with tokens that are planted for it.
func proveTokens(ctx context.Context, s *session, t *tally) error {
	return s.try(ctx, t, func(tx pgx.Tx, _ string) ([]attempt, error) {
		if err := tx.Conn().PgConn().Exec(ctx, s.sql("tokens_plant")).Close(); err != nil {
			return nil, fmt.Errorf("making tokens to try: %w", err)
		}
		all, err := s.attempts(ctx, tx, "tokens")
		for n := range all {
			if all[n].role = "railhead_api"; all[n].Verb == "CALL OWN" {
				all[n].want = allowed
			}
		}
		return all, err
	})
}

// replicaMode sets the mode in which an ordinary trigger does not fire.
const replicaMode = "SET LOCAL session_replication_role = replica"

func (s *session) attempts(ctx context.Context, tx pgx.Tx, name string, args ...any) ([]attempt, error) {
	rows, err := tx.Query(ctx, s.sql(name), args...)
	if err != nil {
		return nil, fmt.Errorf("listing the attempts: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (attempt, error) {
		var a attempt
		err := row.Scan(&a.Verb, &a.Kind, &a.Name, &a.Col, &a.Statement, &a.Partition)
		return a, err
	})
}

// errUndone ends every transaction of attempts: none of them is ever committed.
var errUndone = errors.New("rolled back, as always")

// try makes attempts one by one, each undone before the next, in a transaction
// that is never committed.
func (s *session) try(ctx context.Context, t *tally, list func(tx pgx.Tx, suffix string) ([]attempt, error)) error {
	begun := time.Now()
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	err := pgx.BeginTxFunc(ctx, s.conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+tryTimeout+"'"); err != nil {
			return err
		}
		all, err := list(tx, strings.ToLower(rand.Text()[:12]))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SAVEPOINT attempt"); err != nil {
			return err
		}
		for n, a := range all {
			state, err := a.decided(ctx, tx.Conn().PgConn())
			if err != nil {
				return fmt.Errorf("%v: %w", a, err)
			}
			if !a.holds(state) {
				t.offend("%v: %s", a, a.complaint(state))
			}
			t.rows++
			if time.Since(begun) > time.Second && n%1000 == 0 {
				s.options.Progress("attempts", int64(n))
			}
		}
		return errUndone
	})
	if !errors.Is(err, errUndone) {
		return err
	}
	t.seen = fmt.Sprintf("%d attempts, each refused or allowed as expected", t.rows)
	return nil
}

func (a attempt) complaint(state string) string {
	switch {
	case state == "":
		return "it succeeded (" + a.Statement + ")"
	case a.want == allowed:
		return "refused with " + state + ", and must not be (" + a.Statement + ")"
	default:
		return "SQLSTATE " + state + " instead of the expected refusal (" + a.Statement + ")"
	}
}

// triesMax bounds how often an attempt is made that waited in vain for a lock: services of the cell write all the time,
// and a refusal may come after the lock.
const triesMax = 20

// decided makes the attempt, again if another session's lock had it end before the server decided about the privilege.
// It returns the SQLSTATE, empty for a success, or an error if there is none; that of a lock which was held throughout
// has the code lockNotAvailable.
func (a attempt) decided(ctx context.Context, conn *pgconn.PgConn) (string, error) {
	for tries := 1; ; tries++ {
		err := a.make(ctx, conn)
		state := sqlstate(err)
		waited := state == lockNotAvailable && !a.holds(state)
		if state == "?" || waited && tries == triesMax {
			return "", err
		}
		if !waited {
			return state, nil
		}
	}
}

// make rolls back the attempt before, assumes the role and makes the attempt. The rollback
// comes first, so that one round trip is enough, whatever the result of the last attempt.
func (a attempt) make(ctx context.Context, conn *pgconn.PgConn) error {
	before := "ROLLBACK TO SAVEPOINT attempt; " + a.prep
	if a.role != "" {
		before += "SET LOCAL ROLE " + pgx.Identifier{a.role}.Sanitize() + "; "
	}
	copies := strings.HasPrefix(a.Verb, "COPY")
	statement := before + a.Statement
	if copies {
		statement = before
	}
	err := conn.Exec(ctx, statement).Close()
	if err == nil && copies {
		if a.Verb == "COPY TO" {
			_, err = conn.CopyTo(ctx, io.Discard, a.Statement)
		} else {
			_, err = conn.CopyFrom(ctx, strings.NewReader(""), a.Statement)
		}
	}
	return err
}
