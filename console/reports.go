package console

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/proofs"
)

// The bounds of a search for reports.
const (
	reportsRead     = 20 // files, the newest; more until a report is whole
	reportsReadMost = 60
	reportBytesMax  = 16 << 20 // of one file
	reportsNotedMax = 5        // files that are not counted, by name
	clocksDiffer    = time.Minute
)

// filedReport is a report of the proofs as railhead prove --report filed it, with a digest that agrees.
type filedReport struct {
	proofs.Report
	File   string
	Digest string
}

// Age is the time since the report was taken, by this host's clock.
func (f *filedReport) Age() time.Duration { return time.Since(f.TakenAt) }

// Lacks is how many proofs of this build the report does not have, as one of a run of some by name.
func (f *filedReport) Lacks() (n int) {
	for _, proof := range proofs.All() {
		if f.resultOf(proof.Name) == nil {
			n++
		}
	}
	return n
}

// isWhole reports whether the report has every proof of this build, about all instructions.
func (f *filedReport) isWhole() bool { return f.since().IsZero() && f.Lacks() == 0 }

// since is from when on the instructions are that the report is about; zero: all.
func (f *filedReport) since() time.Time {
	if f.Since == "" {
		return time.Time{}
	}
	since, err := time.Parse(time.RFC3339Nano, f.Since)
	if err != nil || since.IsZero() {
		return f.TakenAt // it is about none that is known
	}
	return since
}

func (f *filedReport) resultOf(name string) *proofs.Result {
	n := slices.IndexFunc(f.Proofs, func(r proofs.Result) bool { return r.Name == name })
	if n < 0 {
		return nil
	}
	return &f.Proofs[n]
}

// reports are those of one database in a folder.
type reports struct {
	Last    *filedReport // the one that was taken last; nil: there is none
	Skipped []string     // files that are not counted
	Unread  int          // older files
	Why     string       // why there is none
	all     []*filedReport
}

// found is a result of a proof with the report that has it; without one no report has it.
type found struct {
	*proofs.Result
	Of   *filedReport
	Tone explain.Tone
}

// Since is the first moment of the instructions that it is about, as its report has it; empty: it is about all, or
// about none, as one of the catalog is.
func (f found) Since() string {
	if !f.TakesSince() {
		return ""
	}
	return f.Of.Since
}

func (f found) since() time.Time {
	if f.Since() == "" {
		return time.Time{}
	}
	return f.Of.since()
}

// newest is the newest result of a proof. A failure stays until a later report has checked at least the same: one of a
// few proofs, or of instructions since a later time, takes back no failure that it did not look for.
func (r reports) newest(name string) (shown found) {
	var since time.Time // from when on instructions were checked again later
	for _, report := range r.all {
		result := report.resultOf(name)
		if result == nil {
			continue
		}
		one := found{Result: result, Of: report, Tone: toneOf(result.Status)}
		from := one.since()
		switch {
		case shown.Result == nil, shown.Status == proofs.NotRun && result.Status != proofs.NotRun:
			shown = one
		case result.Status == proofs.Failed && shown.Status != proofs.Failed && !covers(since, from):
			shown = one
		}
		if result.Status == proofs.NotRun {
			continue
		}
		if from.IsZero() {
			break
		}
		if since.IsZero() || from.Before(since) {
			since = from
		}
	}
	return shown
}

// covers reports whether a check of the instructions since one time is one of those since another time, too; zero: of
// all of these, of none of the former.
func covers(checked, since time.Time) bool {
	return !checked.IsZero() && !since.IsZero() && !checked.After(since)
}

func toneOf(status proofs.Status) explain.Tone {
	switch status {
	case proofs.Passed:
		return explain.Good
	case proofs.Failed:
		return explain.Alarm
	default:
		return explain.Warn
	}
}

// reportsOf returns the reports in a folder, of the newest files, that are of a cell in a database. It names files that
// are no report, were changed since, or are of another database with a cell of this name.
func reportsOf(folder, cell string, on reader.Identity) (r reports) {
	if folder == "" {
		return reports{Why: "this console has no folder of reports"}
	}
	files, err := reportFiles(folder)
	if err != nil {
		return reports{Why: "the folder of reports can't be read"}
	}
	whole := false
	for n, name := range files {
		if n >= reportsReadMost || n >= reportsRead && whole {
			r.Unread = len(files) - n
			break
		}
		report, err := readReport(filepath.Join(folder, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed since
		case err != nil:
			r.Skipped = append(r.Skipped, name+": "+whyNoReport(err))
		case report.Database.Cell != cell:
		default:
			if why := whyNotOf(report, on); why != "" {
				r.Skipped = append(r.Skipped, name+": "+why)
				continue
			}
			report.File = name
			r.all, whole = append(r.all, report), whole || report.isWhole()
		}
	}
	if len(r.Skipped) > reportsNotedMax {
		r.Skipped = append(r.Skipped[:reportsNotedMax], "and more")
	}
	slices.SortStableFunc(r.all, func(a, b *filedReport) int { return b.TakenAt.Compare(a.TakenAt) })
	if len(r.all) == 0 {
		r.Why = "the folder of reports has none of this cell among its newest files"
		return r
	}
	r.Last = r.all[0]
	return r
}

// whyNotOf says why a report of a cell of this name is not one of the database that the console reads; empty: it is.
func whyNotOf(report *filedReport, on reader.Identity) string {
	of := report.Database
	switch {
	case of.Database != on.Database || of.SystemIdentifier != on.SystemIdentifier && on.SystemIdentifier != "":
		return fmt.Sprintf("of database %s of system %s, and this console reads %s of %s", of.Database,
			cmp.Or(of.SystemIdentifier, "not known"), on.Database, cmp.Or(on.SystemIdentifier, "not known"))
	case report.TakenAt.After(on.Now.Add(clocksDiffer)):
		return "taken at " + explain.Clock(report.TakenAt) + ", which is yet to come by the database's clock"
	}
	return ""
}

// reportFiles are the names of the files that may be reports, the newest first.
func reportFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("listing the reports: %w", err)
	}
	at := make(map[string]time.Time)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(entry.Name(), ".json") {
			at[entry.Name()] = info.ModTime()
		}
	}
	return slices.SortedFunc(maps.Keys(at), func(a, b string) int {
		return cmp.Or(at[b].Compare(at[a]), cmp.Compare(a, b))
	}), nil
}

func readReport(path string) (*filedReport, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, reportBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > reportBytesMax {
		return nil, errTooLarge
	}
	report, digest, err := proofs.Check(text)
	if err != nil {
		return nil, err
	}
	for n := range report.Proofs { // what no page shows is not kept
		one := &report.Proofs[n]
		one.SQL, one.Statements, one.Logins = "", nil, nil
	}
	return &filedReport{Report: report, Digest: digest}, nil
}

var errTooLarge = errors.New("larger than 16 MiB")

// whyNoReport says why a file is not shown, without its text.
func whyNoReport(err error) string {
	switch {
	case errors.Is(err, proofs.ErrChanged):
		return "changed since it was filed, for its digest does not agree"
	case errors.Is(err, errTooLarge):
		return errTooLarge.Error()
	case errors.Is(err, fs.ErrPermission):
		return "the console may not read it"
	default:
		return "no report of this build"
	}
}
