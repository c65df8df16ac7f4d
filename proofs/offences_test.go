package proofs_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/proofs"
)

var account = flag.String("account", "", "file that TestOffences writes its account to")

// offence is one entry of offences.yaml.
type offence struct {
	Offence   string `yaml:"offence"`
	Plant     string `yaml:"plant"`
	Undo      string `yaml:"undo"`
	Unguarded bool   `yaml:"unguarded"`
	CaughtBy  string `yaml:"caught_by"`
	Says      string `yaml:"says"`
	// Noticed is how, where the proof does not fail: in a note, or because it does not run.
	Noticed string `yaml:"noticed"`
}

// The ways in which a proof notices an offence other than by failing.
const (
	byNote  = "note"
	byNoRun = "not run"
)

// notices reports whether a result names the offence in the required way and words.
func (o offence) notices(r proofs.Result) error {
	status, lines := proofs.Failed, r.First
	switch o.Noticed {
	case byNote: // which makes nothing fail
		status, lines = proofs.Passed, r.Notes
	case byNoRun: // for which the exit code is 8, as for a failure
		status, lines = proofs.NotRun, []string{r.Seen}
		if !r.Requested {
			return fmt.Errorf("%s did not run, and counts as not asked for", r.Name)
		}
	}
	if r.Status != status {
		return fmt.Errorf("%s is %s and not %s: %s", r.Name, r.Status, status, r.Seen)
	}
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, o.Says) }) {
		return fmt.Errorf("%s is %s and does not say %q: %v", r.Name, r.Status, o.Says, lines)
	}
	return nil
}

const leastOffences = 25

// unhurried is how old a claim of the fixture may be: on a slow machine the last
// offence is planted long after the fixture was made.
const unhurried = 2 * time.Hour

func offences(t testing.TB) []offence {
	t.Helper()
	text, err := os.ReadFile("offences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []offence
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestOffencesCoverProofs leaves no proof without a counter-proof.
func TestOffencesCoverProofs(t *testing.T) {
	t.Parallel()
	all := offences(t)
	if len(all) < leastOffences {
		t.Errorf("%d offences, want %d or more", len(all), leastOffences)
	}
	for n, one := range all {
		if one.Offence == "" || one.Plant == "" || one.CaughtBy == "" || one.Says == "" ||
			!slices.Contains([]string{"", byNote, byNoRun}, one.Noticed) {
			t.Errorf("offence %d (%s) is not complete", n+1, one.Offence)
		}
		if slices.ContainsFunc(all[:n], func(other offence) bool { return other.Offence == one.Offence }) {
			t.Errorf("%s: listed twice", one.Offence)
		}
		if _, err := proofs.Named([]string{one.CaughtBy}); err != nil {
			t.Errorf("%s: %v", one.Offence, err)
		}
	}
	for _, proof := range proofs.All() {
		if !slices.ContainsFunc(all, func(one offence) bool { return one.CaughtBy == proof.Name && one.Noticed == "" }) {
			t.Errorf("no offence is caught by %s: nothing shows that it can fail", proof.Name)
		}
	}
}

// TestOffences plants every offence in a cell that passes without it, and checks that the
// proof of its entry finds it; psql must find the same with what prove list prints.
// Some change roles and parameters of the whole server, so it has one of its own, and
// they are planted one by one. With -short, the first one of each proof.
func TestOffences(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	var lines, said []string
	control := func(when string) {
		report := prove(t, database(t, cluster).Conn(t, ""),
			proofs.Options{Behaviour: true, Logins: celltest.Logins(), InFlightMax: unhurried})
		for _, result := range report.Proofs {
			if result.Status != proofs.Passed {
				t.Fatalf("control, %s: %s is %s: %s", when, result.Name, result.Status, result.Seen)
			}
			said = append(said, result.Seen)
		}
	}
	control("before")
	caught, tried := 0, 0
	all := offences(t)
	judged := make(map[string]bool)
	for _, one := range all {
		if testing.Short() && judged[one.CaughtBy+one.Noticed] {
			continue // one for each proof and way of noticing
		}
		judged[one.CaughtBy+one.Noticed] = true
		t.Run(one.Offence, func(t *testing.T) {
			tried++
			result := planted(t, cluster, one)
			verdict := "NOT CAUGHT"
			if err := one.notices(result); err != nil {
				t.Error(err)
			} else {
				caught++
				verdict = map[string]string{byNote: "noted by", byNoRun: "stops"}[one.Noticed]
				verdict = cmp.Or(verdict, "caught by")
			}
			said = append(append(said, result.First...), result.Seen)
			lines = append(lines, fmt.Sprintf("%-60s %-10s %-17s %s", one.Offence, verdict, one.CaughtBy, result.Seen))
		})
	}
	control("after")
	lines = append(lines, fmt.Sprintf("offences: planted=%d caught=%d", tried, caught))
	if *account != "" {
		if err := os.WriteFile(*account, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if tried == 0 || caught != tried {
		t.Errorf("%d of %d offences caught", caught, tried)
	}
	if tried < len(all) {
		t.Logf("%d of %d offences were asked for: what the others make the proofs say was not looked for", tried, len(all))
		return
	}
	for _, sentence := range sentences(t) {
		if !slices.ContainsFunc(said, sentence.form.MatchString) {
			t.Errorf("%s can say %q, and no offence makes it: nothing holds that to the rows", sentence.file, sentence.text)
		}
	}
}

// sentence is a text that a proof can report.
type sentence struct {
	file, text string
	form       *regexp.Regexp
}

// sentences finds the texts that the statements of the proofs make with format, but for
// notes, of which TestNotesOfSideDoors has those that a statement words, and for what is SQL again.
func sentences(t *testing.T) []sentence {
	t.Helper()
	var all []sentence
	files, err := filepath.Glob("sql/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("sql/violations/*.sql")
	if err != nil || len(more) == 0 {
		t.Fatal(len(more), err)
	}
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`('note', )?format\('((?:[^']|'')*)'`).FindAllStringSubmatch(string(text), -1) {
			words := strings.NewReplacer("''", "'", "{cell}", "railhead").Replace(found[2])
			if found[1] != "" || regexp.MustCompile(`^(SELECT|INSERT INTO|COPY|SET LOCAL) `).MatchString(words) {
				continue
			}
			form := regexp.MustCompile(`%%|%[sIL]`).ReplaceAllString(regexp.QuoteMeta(words), `(?s:.*)`)
			all = append(all, sentence{filepath.Base(file), words, regexp.MustCompile(form)})
		}
	}
	return all
}

// planted breaks a cell of its own in one way and runs the proof that must
// notice, as an auditor where that is enough.
func planted(t *testing.T, cluster *pgtest.Cluster, one offence) proofs.Result {
	t.Helper()
	db := database(t, cluster)
	super := db.Conn(t, "")
	run := func(sql string) error {
		_, err := super.Exec(t.Context(), strings.ReplaceAll(sql, "{database}",
			pgx.Identifier{db.Name}.Sanitize())+"; RESET ROLE")
		return err
	}
	if one.Undo != "" {
		defer func() {
			if err := run(one.Undo); err != nil {
				t.Fatalf("undoing: %v", err)
			}
		}()
	}
	plant := func() error { return run(one.Plant) }
	err := error(nil)
	if one.Unguarded {
		err = unguarded(t, super, plant)
	} else {
		err = plant()
	}
	if err != nil {
		t.Fatalf("planting: %v", err)
	}
	o, login := proofs.Options{Names: []string{one.CaughtBy}, PageSize: 7, InFlightMax: unhurried}, celltest.Auditor
	proof, err := proofs.Named(o.Names)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case proof[0].Tries:
		o.Behaviour, login = true, ""
	case proof[0].RunAs == "railhead_control":
		login = celltest.Control
	case one.CaughtBy == "members":
		o.Logins = celltest.Logins()
	}
	result := prove(t, db.Conn(t, login), o.ShowingAll()).Proofs[0]
	if one.Noticed == byNoRun {
		stopsByHand(t, db.URL(login), proof[0])
	} else {
		sameByHand(t, db, proof[0], o, result)
	}
	return result
}

// unguarded plants with every trigger of the cell off, and puts each back as it was.
func unguarded(t *testing.T, conn *pgx.Conn, plant func() error) error {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT format('ALTER TABLE ONLY %s DISABLE TRIGGER %I', tgrelid::regclass, tgname),
			format('ALTER TABLE ONLY %s ENABLE %s TRIGGER %I', tgrelid::regclass, CASE tgenabled WHEN 'A' THEN 'ALWAYS'
			ELSE '' END, tgname)
		FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
		WHERE c.relnamespace = 'railhead'::regnamespace AND NOT tgisinternal`)
	if err != nil {
		return err
	}
	var off, on []string
	var disable, enable string
	if _, err := pgx.ForEachRow(rows, []any{&disable, &enable}, func() error {
		off, on = append(off, disable), append(on, enable)
		return nil
	}); err != nil {
		return err
	}
	if _, err := conn.Exec(t.Context(), strings.Join(off, "; ")); err != nil {
		return err
	}
	err = plant()
	_, restoreErr := conn.Exec(t.Context(), strings.Join(on, "; "))
	return errors.Join(err, restoreErr)
}
