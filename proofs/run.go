package proofs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
)

// Options select the proofs of a run, and what they may do. The zero value, with a
// cell, runs every proof that only reads, over all instructions.
type Options struct {
	Cell  string
	Names []string // of proofs; none: all
	// Since leaves out instructions enqueued before it, and Age, if it is set, those enqueued longer ago by the server's
	// clock. A Since that is yet to come by that clock is ErrSince.
	Since time.Time
	Age   time.Duration
	// Behaviour permits attempts, which are rolled back. They take short locks: use it
	// at a quiet hour, or on a copy.
	Behaviour bool
	// InFlightMax is the age up to which an unanswered claim counts as in flight;
	// 0 is 15 minutes, or twice the longest claim timeout that the components may be using.
	InFlightMax time.Duration
	// Logins, if any, are the logins that may be members of roles, by role.
	Logins map[string]string
	// Administrators are the logins without superuser that may become the owner, and the groups by which they may do
	// more than their own attributes say. Any other that may is a violation.
	Administrators []string
	// PageSize is how many instructions share a snapshot; 0 is 2,000.
	PageSize int
	// Progress is called at intervals with the progress of a proof that reads much.
	Progress func(what string, done int64)
	// Build and Commit are the version and commit of the program, for the report.
	Build, Commit string
	// shown is the number of violations of a proof that are named; 0 is 20.
	shown int
}

const pageSize = 2000

func (o Options) withDefaults() Options {
	if o.PageSize <= 0 {
		o.PageSize = pageSize
	}
	if o.shown <= 0 {
		o.shown = offencesShown
	}
	if o.Progress == nil {
		o.Progress = func(string, int64) {}
	}
	return o
}

// requests reports whether a run includes a proof: it is named, or none is named and
// it needs no more than the run permits.
func (o Options) requests(p Proof) bool {
	if len(o.Names) > 0 {
		return slices.Contains(o.Names, p.Name)
	}
	return p.RunAs == asAuditor || p.Tries && o.Behaviour
}

// Run runs proofs over a connection that belongs to it until it returns. A failed proof
// is no error but a result in the report. An error means that there is no report.
func Run(ctx context.Context, conn *pgx.Conn, o Options) (Report, error) {
	o = o.withDefaults()
	picked, err := Named(o.Names)
	if err != nil {
		return Report{}, err
	}
	s, err := open(ctx, conn, o)
	if err != nil {
		return Report{}, err
	}
	report, err := s.newReport(ctx)
	if err != nil {
		return Report{}, err
	}
	tallies := make([]tally, len(picked))
	for n := range tallies {
		tallies[n].shown = o.shown
	}
	took := make([]time.Duration, len(picked))
	failures := make([]error, len(picked))
	var paged []int
	for n, proof := range picked {
		switch {
		case s.lacks(proof) != "":
		case proof.whole == nil:
			paged = append(paged, n)
		default:
			begun := time.Now()
			failures[n] = proof.whole(ctx, s, &tallies[n])
			took[n] = time.Since(begun)
		}
		if err := s.broken(ctx); err != nil {
			return Report{}, err
		}
	}
	if len(paged) > 0 {
		begun := time.Now()
		err := s.walk(ctx, picked, paged, tallies)
		if gone := s.broken(ctx); gone != nil {
			return Report{}, gone
		}
		for _, n := range paged {
			failures[n], took[n] = err, time.Since(begun)
		}
	}
	for n, proof := range picked {
		result := s.result(proof, tallies[n], took[n], failures[n])
		if result.SQL, err = proof.scripted(s.matrix, s.options); err != nil {
			return Report{}, err
		}
		report.Proofs = append(report.Proofs, result)
	}
	report.count()
	return report, nil
}

// broken returns an error if the run can't continue: it was stopped, or its connection is closed.
func (s *session) broken(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	if s.conn.IsClosed() {
		return fmt.Errorf("proving over a connection that was closed: %w", s.conn.Ping(ctx))
	}
	return nil
}

// result is the result of a proof by its tally. A proof that has checked no row is EMPTY.
func (s *session) result(p Proof, t tally, took time.Duration, err error) Result {
	r := Result{
		Name: p.Name, Promise: p.Promise, Shows: p.Shows, Ledger: p.Ledger, Statements: p.Statements, Expected: p.Expected,
		Requested: s.options.requests(p), Rows: t.rows, Offences: t.offences, First: t.first, Notes: t.notes,
		Logins: t.logins, TookMS: took.Milliseconds(),
	}
	if more := t.noted - len(t.notes); more > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("and %d more", more))
	}
	lacks := s.lacks(p)
	switch {
	case lacks != "":
		r.Status, r.Seen = NotRun, "not run: "+lacks
	case t.offences > 0: // however it ended: what it found stays found
		r.Status, r.Seen = Failed, t.first[0]
		if t.offences > 1 {
			r.Seen += fmt.Sprintf(" (and %d more)", t.offences-1)
		}
		if err != nil {
			r.Seen += "; the proof did not finish: " + plain(err.Error())
		}
	case sqlstate(err) == insufficientPrivilege:
		r.Status, r.Seen = NotRun, plain("not run: needs more rights: "+err.Error())
	case sqlstate(err) == lockNotAvailable:
		r.Status, r.Seen = NotRun, plain("not run: another session held a lock: "+err.Error())
	case err != nil:
		r.Status, r.Seen = Failed, plain("the proof could not be run: "+err.Error())
		r.Offences = 1
	case t.rows == 0:
		r.Status, r.Seen = Empty, "there was nothing to check, which proves nothing"
	default:
		r.Status, r.Seen = Passed, t.seen
		if r.Seen == "" {
			r.Seen = fmt.Sprintf("%d %s, no violation", t.rows, p.Counts)
		}
	}
	return r
}

const (
	insufficientPrivilege = "42501"
	lockNotAvailable      = "55P03"
)

// diff compares the catalog with the matrix, once for each run.
func (s *session) diff(ctx context.Context) ([]acl.Difference, error) {
	if s.compared {
		return s.differences, nil
	}
	found, err := acl.Diff(ctx, s.conn, s.cell, s.options.Administrators...)
	if err != nil {
		return nil, err
	}
	s.differences, s.compared = found, true
	return found, nil
}

// differing is a proof that the catalog has no difference of some kinds from the matrix.
func differing(seen string, codes ...acl.Code) func(context.Context, *session, *tally) error {
	return func(ctx context.Context, s *session, t *tally) error {
		found, err := s.diff(ctx)
		if err != nil {
			return err
		}
		t.rows += int64(len(s.matrix.Grants))
		t.seen = fmt.Sprintf(seen, len(s.matrix.Grants), len(s.matrix.Roles))
		for _, d := range found {
			if slices.Contains(codes, d.Code) {
				t.offend("%s", d)
			}
		}
		return nil
	}
}
