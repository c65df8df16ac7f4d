package proofs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/migrations"
)

var (
	// ErrNoProof: there is no proof of that name.
	ErrNoProof = errors.New("no such proof")
	// ErrNoCell: the database has no such cell.
	ErrNoCell = errors.New("the database has no such cell: check the name, then railhead migrate up")
	// ErrSince: nothing would be checked, and nothing proven.
	ErrSince = errors.New("this moment is yet to come by the database's clock")
)

// lockTimeout ends a proof that waits for another session's lock: all sessions queue
// behind one that waits for ACCESS EXCLUSIVE.
const lockTimeout = "5s"

// session is the connection of a run. It is read-only: attempts are made in transactions
// that are declared READ WRITE, and are rolled back.
type session struct {
	conn    *pgx.Conn
	cell    string
	options Options
	facts   facts
	matrix  acl.Matrix
	// differences are found once, and used by several proofs.
	differences []acl.Difference
	compared    bool
	horizon     pgtype.UUID // instructions before it have left the archive
}

// facts are the result of facts.sql.
type facts struct {
	Database      string
	ServerVersion string
	Login         string
	Superuser     bool
	Standby       bool
	TakenAt       time.Time
	Migrated      bool
	Readable      []string
	Executable    []string
	Identified    bool
}

func open(ctx context.Context, conn *pgx.Conn, o Options) (*session, error) {
	if err := migrations.CheckCell(o.Cell); err != nil {
		return nil, err
	}
	matrix, err := acl.Load()
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, cell: o.Cell, options: o, matrix: matrix}
	// row_security off makes a hidden row an error instead of a smaller count. The
	// path excludes other operators and functions. Pages are short statements, and
	// compiling each takes longer than running it. The other settings of a login
	// would change how our text is read, or how the server's is written.
	_, err = conn.Exec(ctx, `SET default_transaction_read_only = on; SET row_security = off;
		SET search_path = pg_catalog, pg_temp; SET TimeZone = 'UTC'; SET jit = off; SET lock_timeout = '`+lockTimeout+`';
		SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; SET quote_all_identifiers = off;
		SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'`)
	if err != nil {
		return nil, fmt.Errorf("preparing the session: %w", err)
	}
	rows, err := conn.Query(ctx, s.sql("facts"))
	if err != nil {
		return nil, fmt.Errorf("reading the server's facts: %w", err)
	}
	s.facts, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[facts])
	if err != nil {
		return nil, fmt.Errorf("reading the server's facts: %w", err)
	}
	if !s.facts.Migrated {
		return nil, fmt.Errorf("cell %s: %w", o.Cell, ErrNoCell)
	}
	if o.Age > 0 {
		s.options.Since = s.facts.TakenAt.Add(-o.Age)
	}
	if s.options.Since.After(s.facts.TakenAt) {
		return nil, fmt.Errorf("%s: %w, which has %s", s.options.Since.UTC().Format(time.RFC3339), ErrSince,
			s.facts.TakenAt.UTC().Format(time.RFC3339))
	}
	return s, nil
}

// sql returns an embedded statement for this cell.
func (s *session) sql(name string) string { return statement("sql/"+name+".sql", s.cell) }

// read runs do in one read-only snapshot.
func (s *session) read(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
}

// system is the system identifier of the cluster, "" if the login can't read it.
func (s *session) system(ctx context.Context) (string, error) {
	if !s.facts.Identified {
		return "", nil
	}
	var identifier string
	if err := s.conn.QueryRow(ctx, s.sql("system")).Scan(&identifier); err != nil {
		return "", fmt.Errorf("reading the system identifier: %w", err)
	}
	return identifier, nil
}

// schemaVersion is the newest migration of the cell, -1 if the login can't read it.
func (s *session) schemaVersion(ctx context.Context) (int64, error) {
	if !slices.Contains(s.facts.Readable, "schema_migrations") {
		return -1, nil
	}
	var version int64
	if err := s.conn.QueryRow(ctx, s.sql("version")).Scan(&version); err != nil {
		return 0, fmt.Errorf("reading the schema's version: %w", err)
	}
	return version, nil
}

// lacks describes what a proof needs and the session lacks; "" if it can run.
func (s *session) lacks(p Proof) string {
	var missing []string
	for _, table := range p.Reads {
		if !slices.Contains(s.facts.Readable, table) {
			missing = append(missing, "SELECT on "+table)
		}
	}
	for _, function := range p.Executes {
		if !slices.Contains(s.facts.Executable, function) {
			missing = append(missing, "EXECUTE on "+function)
		}
	}
	switch {
	case p.Tries && !s.options.Behaviour:
		return "needs --behaviour, and a superuser: it makes attempts, in a transaction that is rolled back"
	case p.Tries && !s.facts.Superuser:
		return "needs a superuser: it assumes every role in turn"
	case p.Tries && s.facts.Standby:
		return "needs the writable server: no attempt can be made on a standby"
	case len(missing) > 0:
		return "needs " + strings.Join(missing, ", ")
	default:
		return ""
	}
}

// roleNames are the roles of the matrix, the owner among them.
func (s *session) roleNames() []string {
	var names []string
	for _, role := range s.matrix.Roles {
		names = append(names, role.Name)
	}
	return names
}

// services are the roles that a login can be a member of.
func (s *session) services() []string {
	return slices.DeleteFunc(s.roleNames(), func(name string) bool { return name == s.matrix.Owner })
}

// sqlstate is the code of a server's error; "" for none, "?" for one without.
func sqlstate(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	if err != nil {
		return "?"
	}
	return ""
}

// plain replaces line ends, control characters, C1 among them, and those that change the direction of writing in text
// from outside, so that a report has one line for each violation and one canonical form, and moves no terminal's
// cursor.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
