package console

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/proofs"
)

// The bounds of a search for the last report.
const (
	reportsRead     = 20       // files, the newest
	reportBytesMax  = 16 << 20 // of one file
	reportsNotedMax = 5        // files that are no report, by name
)

// filedReport is a report of the proofs as railhead prove --report filed it, with a digest that agrees.
type filedReport struct {
	proofs.Report
	File   string
	Digest string
}

// Age is the time since the report was taken, by this host's clock.
func (f *filedReport) Age() time.Duration { return time.Since(f.TakenAt) }

// resultOf returns the result of a proof; nil: the report has none.
func (f *filedReport) resultOf(name string) (*proofs.Result, explain.Tone) {
	n := slices.IndexFunc(f.Proofs, func(r proofs.Result) bool { return r.Name == name })
	if n < 0 {
		return nil, explain.Warn
	}
	switch f.Proofs[n].Status {
	case proofs.Passed:
		return &f.Proofs[n], explain.Good
	case proofs.Failed:
		return &f.Proofs[n], explain.Alarm
	default:
		return &f.Proofs[n], explain.Warn
	}
}

// lastReport returns the report of a cell in a folder that was taken last, of the newest files; nil
// with the reason: there is none. It names files that are no report, or were changed since.
func lastReport(folder, cell string) (last *filedReport, skipped []string, why string) {
	if folder == "" {
		return nil, nil, "this console has no folder of reports"
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, "the folder of reports can't be read"
	}
	type dated struct {
		name string
		at   time.Time
	}
	var files []dated
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(entry.Name(), ".json") {
			files = append(files, dated{entry.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b dated) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.name, a.name)) })
	for _, file := range files[:min(len(files), reportsRead)] {
		report, err := readReport(filepath.Join(folder, file.name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed since
		case err != nil:
			skipped = append(skipped, file.name+": "+whyNoReport(err))
		case report.Database.Cell == cell && (last == nil || report.TakenAt.After(last.TakenAt)):
			last = report
			last.File = file.name
		}
	}
	if len(skipped) > reportsNotedMax {
		skipped = append(skipped[:reportsNotedMax], "and more")
	}
	if last == nil {
		why = "the folder of reports has none of this cell among its newest files"
	}
	return last, skipped, why
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
