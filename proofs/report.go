package proofs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Status is the result of a proof.
type Status string

// Only PASSED counts as proven.
const (
	Passed Status = "PASSED"
	Failed Status = "FAILED"
	NotRun Status = "NOT_RUN" // the login lacks a right, or it was not asked for
	Empty  Status = "EMPTY"   // there was nothing to check
)

// Result is one proof in a report. The field names are part of its contract.
type Result struct {
	Name       string   `json:"name"`
	Promise    string   `json:"promise"`
	Shows      string   `json:"shows"`
	Status     Status   `json:"status"`
	Ledger     bool     `json:"ledger"`    // whether it read instructions, and not the catalog
	Requested  bool     `json:"requested"` // by name, or as one of those for which the run's rights suffice
	Rows       int64    `json:"rows"`      // rows, objects or attempts that it checked
	Expected   string   `json:"expected"`
	Seen       string   `json:"seen"`
	Offences   int      `json:"offences"`
	First      []string `json:"first_offences,omitempty"`
	Notes      []string `json:"notes,omitempty"`  // fail no proof; an auditor should read them
	Logins     []string `json:"logins,omitempty"` // every login of the roles, as login=role; of the proof members only
	Statements []string `json:"statements"`
	SQL        string   `json:"sql,omitempty"`
	TookMS     int64    `json:"took_ms"`
}

// TakesSince reports whether Options.Since leaves instructions out of it. It does of no proof of the catalog, and the
// next number of a participant is compared with its last one, whenever that was given.
func (r *Result) TakesSince() bool { return r.Ledger && r.Name != sequenceNext }

// Database is the database on which the proofs were run.
type Database struct {
	SystemIdentifier string `json:"system_identifier"` // of the cluster; empty if the login can't read it
	Database         string `json:"database"`
	Cell             string `json:"cell"`
	ServerVersion    string `json:"server_version"`
	SchemaVersion    int64  `json:"schema_version"` // newest migration; -1 if the login can't read it
	Standby          bool   `json:"standby"`
	Login            string `json:"login"`
	Superuser        bool   `json:"superuser"`
}

// Report is the result of a run.
type Report struct {
	Railhead  string    `json:"railhead"` // the version of the build
	Commit    string    `json:"commit"`   // its commit, or a text that it is not known
	Database  Database  `json:"database"`
	TakenAt   time.Time `json:"taken_at"` // by the database's clock
	Since     string    `json:"since,omitempty"`
	Behaviour bool      `json:"behaviour"`
	Proofs    []Result  `json:"proofs"`
	Passed    int       `json:"passed"`
	Failed    int       `json:"failed"`
	NotRun    int       `json:"not_run"`
	Empty     int       `json:"empty"`
	// rows of the ledger that were checked, each once for every proof that checked it; 0: there are none
	Rows int64 `json:"rows"`
}

func (s *session) newReport(ctx context.Context) (Report, error) {
	system, err := s.system(ctx)
	if err != nil {
		return Report{}, err
	}
	version, err := s.schemaVersion(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{
		Railhead: s.options.Build, Commit: s.options.Commit, TakenAt: s.facts.TakenAt.UTC(), Behaviour: s.options.Behaviour,
		Database: Database{
			SystemIdentifier: system, Database: plain(s.facts.Database), Cell: s.cell,
			ServerVersion: plain(s.facts.ServerVersion),
			SchemaVersion: version, Standby: s.facts.Standby, Login: plain(s.facts.Login), Superuser: s.facts.Superuser,
		},
	}
	if !s.options.Since.IsZero() {
		r.Since = s.options.Since.UTC().Format(time.RFC3339Nano)
	}
	return r, nil
}

func (r *Report) count() {
	for _, proof := range r.Proofs {
		if proof.Ledger {
			r.Rows += proof.Rows
		}
		switch proof.Status {
		case Passed:
			r.Passed++
		case Failed:
			r.Failed++
		case NotRun:
			r.NotRun++
		case Empty:
			r.Empty++
		}
	}
}

// Missing names the requested proofs that did not run.
func (r Report) Missing() []string {
	var names []string
	for _, proof := range r.Proofs {
		if proof.Requested && proof.Status == NotRun {
			names = append(names, proof.Name)
		}
	}
	return names
}

// Summary is the last line of a run.
func (r Report) Summary() string {
	return fmt.Sprintf("proofs: passed=%d failed=%d rows_checked=%d", r.Passed, r.Failed, r.Rows)
}

// canonical is the form of a report over which its digest is computed: compact JSON,
// fields in the order above, no escapes that JSON does not require. jq -cj .report
// prints the same.
func (r Report) canonical() ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

// filed is a report with its digest, as a file has it.
type filed struct {
	Digest string          `json:"digest"`
	Report json.RawMessage `json:"report"`
}

// File returns the report as an auditor files it, with the digest of its canonical form.
func (r Report) File() ([]byte, error) {
	body, err := r.canonical()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(filed{Digest: digest(body), Report: body}); err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return text.Bytes(), nil
}

// ErrChanged means that a filed report does not have the digest in its file.
var ErrChanged = errors.New("the report does not match its digest")

// Check reads a filed report and compares it with its digest.
func Check(text []byte) (Report, string, error) {
	var file filed
	if err := json.Unmarshal(text, &file); err != nil {
		return Report{}, "", fmt.Errorf("reading the report: %w", err)
	}
	var r Report
	decoder := json.NewDecoder(bytes.NewReader(file.Report))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return Report{}, "", fmt.Errorf("reading the report: %w", err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, file.Report); err != nil {
		return Report{}, "", fmt.Errorf("reading the report: %w", err)
	}
	if sum := digest(body.Bytes()); sum != file.Digest {
		return r, sum, fmt.Errorf("%w: the file has %s, the report %s", ErrChanged, file.Digest, sum)
	}
	return r, file.Digest, nil
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}
