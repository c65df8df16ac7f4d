package codes

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/railhead-pay/railhead/payment"
)

// Entry is one code of a table.
type Entry struct {
	Code    string
	Class   Class
	Source  string // where the code is defined, or "profile" for an override
	Meaning string
}

// Table assigns a class to each code that it lists. It is immutable.
type Table struct {
	name    string
	edition string
	// ofCall is set if the codes describe the call and not the payment, as those of HTTP do. They
	// prove nothing in answer to an inquiry.
	ofCall bool
	// family returns the code whose entry stands for an unmapped code; nil: there are no families.
	family  func(code string) string
	entries map[string]Entry
	sources []string // in the order of the file
}

// profileSource is the source of an entry whose class is from a rail's profile.
const profileSource = "profile"

// Name returns the name by which profiles refer to the table.
func (t *Table) Name() string { return t.name }

// Edition returns the edition of the table, which changes with any class.
func (t *Table) Edition() string { return t.edition }

// String returns the name and the edition, as stored with every outcome.
func (t *Table) String() string { return t.name + "@" + t.edition }

// Find returns the entry of a code, or that of its family.
func (t *Table) Find(code string) (Entry, bool) {
	if entry, ok := t.entries[code]; ok && code != Unusable {
		return entry, true
	}
	if t.family == nil {
		return Entry{}, false
	}
	entry, ok := t.entries[t.family(code)]
	entry.Code = code
	return entry, ok
}

// Classify returns what a code proves, and whether the table lists it. An unmapped code proves
// nothing.
func (t *Table) Classify(code string, ctx Context) (result payment.Result, listed bool) {
	entry, listed := t.Find(code)
	if !listed {
		entry.Class = Unclear
	}
	if ctx.Inquiry && t.ofCall {
		return payment.ResultUnavailable, listed
	}
	return entry.Class.Result(ctx), listed
}

// Origin returns what is stored as the table that classified a code: the table and its edition, or
// the word profile.
func (t *Table) Origin(code string) string {
	if entry, ok := t.Find(code); ok && entry.Source == profileSource {
		return profileSource
	}
	return t.String()
}

// With returns the table with the classes that a rail's profile assigns to single codes, whether
// the table lists them or not. It returns all faults in one error.
func (t *Table) With(overrides map[string]Class) (*Table, error) {
	var faults []error
	changed := *t
	changed.entries = maps.Clone(t.entries)
	for _, code := range slices.Sorted(maps.Keys(overrides)) {
		class := overrides[code]
		if code == "" || len(code) > maxCode {
			faults = append(faults, fmt.Errorf("code %q: must have 1 to %d characters", code, maxCode))
		}
		if !slices.Contains(Classes(), class) {
			faults = append(faults, fmt.Errorf("code %s: class is %q, must be one of %v", code, class, Classes()))
		}
		entry := t.entries[code]
		changed.entries[code] = Entry{Code: code, Class: class, Source: profileSource, Meaning: entry.Meaning}
	}
	if len(overrides) > 0 {
		changed.sources = append(slices.Clone(t.sources), profileSource)
	}
	return &changed, errors.Join(faults...)
}

// All returns the entries in the order of their codes.
func (t *Table) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, code := range slices.Sorted(maps.Keys(t.entries)) {
			if !yield(t.entries[code]) {
				return
			}
		}
	}
}

// Write prints the table for operators: its edition, its sources, and each code with its class and
// what it proves in answer to a first send, a later send and an inquiry, on a rail of this
// acceptance.
func (t *Table) Write(w io.Writer, acceptance payment.Acceptance) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "table %s, edition %s, acceptance %s\n", t.name, t.edition, acceptance)
	for n, source := range t.sources {
		fmt.Fprintf(out, "source %d: %s\n", n+1, source)
	}
	fmt.Fprintln(out, "\nCODE\tCLASS\tFIRST SEND\tLATER SEND\tINQUIRY\tSOURCE\tMEANING")
	for entry := range t.All() {
		first, _ := t.Classify(entry.Code, Context{SendNo: 1, Acceptance: acceptance})
		later, _ := t.Classify(entry.Code, Context{SendNo: 2, Acceptance: acceptance})
		asked, _ := t.Classify(entry.Code, Context{Inquiry: true, Acceptance: acceptance})
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", entry.Code, entry.Class, first, later, asked,
			slices.Index(t.sources, entry.Source)+1, entry.Meaning)
	}
	fmt.Fprintln(out, "anything else\t-\tUNKNOWN\tUNKNOWN\tUNAVAILABLE\t-\tunmapped: counted, proves nothing")
	return out.Flush()
}
