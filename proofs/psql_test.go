package proofs_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/proofs"
)

// psql is the client of the PostgreSQL that the tests run, or the machine's.
func psql(t testing.TB) string {
	t.Helper()
	found, err := pgserver.Find(t.Context(), 0)
	if err == nil && !slices.Contains(found.Missing, "psql") {
		return found.Path("psql")
	}
	if path, lookErr := exec.LookPath("psql"); lookErr == nil {
		return path
	}
	t.Skipf("no psql: what is printed was not run by it (%v)", errors.Join(err, exec.ErrNotFound))
	return ""
}

// byHand runs a proof as railhead prove list prints it, with a login of
// the role that it names, and returns the rows of its result.
func byHand(t testing.TB, db *pgtest.DB, proof proofs.Proof, o proofs.Options, env ...string) []string {
	t.Helper()
	o.Cell = migrations.DefaultCell
	text, err := proof.SQL(o)
	if err != nil {
		t.Fatal(err)
	}
	login, known := map[string]string{"railhead_auditor": celltest.Auditor, "railhead_control": celltest.Control,
		"superuser": ""}[proof.RunAs]
	if !known {
		t.Fatalf("%s is run as %q, which no login of the cell is", proof.Name, proof.RunAs)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), psql(t), "--no-psqlrc", "--quiet", "--no-align", "--tuples-only",
		db.URL(login))
	cmd.Env = slices.Concat(os.Environ(), env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(proof.Heading()+text), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%s as %s: psql: %v: %s", proof.Name, proof.RunAs, err, errs.String())
	}
	return slices.Sorted(strings.Lines(out.String()))
}

// TestPrinted runs every proof by hand on a cell that has seen everything, also as
// logins that are set to read and write SQL in other ways, and on an empty one: it
// finds no violation.
func TestPrinted(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	whole, empty := database(t, cluster), celltest.On(t, cluster).DB
	settings := "PGOPTIONS=-c standard_conforming_strings=off -c quote_all_identifiers=on -c search_path=public -c " +
		"transform_null_equals=on"
	for _, proof := range proofs.All() {
		t.Run(proof.Name, func(t *testing.T) {
			for what, rows := range map[string][]string{
				"a whole cell": byHand(t, whole, proof, proofs.Options{Logins: celltest.Logins(), InFlightMax: unhurried}), "the same without a list of logins": byHand(t, whole, proof, proofs.Options{InFlightMax: unhurried}),
				"settings of the login's": byHand(t, whole, proof, proofs.Options{InFlightMax: unhurried}, settings), "an empty cell": byHand(t, empty, proof, proofs.Options{}),
			} {
				want(t, what, rows, nil)
			}
		})
	}
}

// TestPrintedStops: with a login without the rights, psql ends with an error and not with
// no row, which would mean that the proof holds.
func TestPrintedStops(t *testing.T) {
	t.Parallel()
	db := celltest.New(t).DB
	for _, proof := range proofs.All() {
		if len(proof.Reads) == 0 && !proof.Tries {
			continue // of the catalog, which every login may read
		}
		stopsByHand(t, db.URL(celltest.Ingest), proof)
	}
}

// stopsByHand insists that psql ends with its code for an error.
func stopsByHand(t testing.TB, url string, proof proofs.Proof) {
	t.Helper()
	text, err := proof.SQL(proofs.Options{Cell: migrations.DefaultCell})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), psql(t), "--no-psqlrc", "--quiet", url)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
		t.Errorf("%s: psql ended with %v: %s", proof.Name, err, out)
	}
}

// Names that prove draws anew for each run, and ages, which differ from run to run.
var (
	drawn = regexp.MustCompile(`railhead_prove_(outsider_)?(by_hand|[a-z0-9]{12})`)
	aged  = regexp.MustCompile(`is open for \d+ s`)
)

// sameByHand checks that the printed proof finds exactly the violations of a run,
// in the same words. COPY, which a DO block can't execute, is attempted by the run only.
func sameByHand(t *testing.T, db *pgtest.DB, proof proofs.Proof, o proofs.Options, found proofs.Result) {
	t.Helper()
	plain := func(lines []string) []string {
		var all []string
		for _, line := range lines {
			if !strings.Contains(line, ", COPY TO on ") && !strings.Contains(line, ", COPY FROM on ") {
				all = append(all, aged.ReplaceAllString(drawn.ReplaceAllString(strings.TrimSuffix(line, "\n"), "DRAWN"), "is open"))
			}
		}
		slices.Sort(all)
		return all
	}
	want(t, proof.Name+" by hand", plain(byHand(t, db, proof, o)), plain(found.First))
}
