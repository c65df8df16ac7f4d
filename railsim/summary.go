package railsim

import (
	"maps"
	"math/big"
	"slices"
)

// maxListed bounds the lists of names in a Summary. The counts next to them are always
// complete.
const maxListed = 100

// Summary adds up a ledger. It is compared with the database of the client under test.
type Summary struct {
	// Records counts all lines.
	Records int `json:"records"`
	// Executed counts executions: how often money moved.
	Executed int `json:"executed"`
	// Refused counts final refusals.
	Refused int `json:"refused"`
	// Accepted counts provisional acceptances; Pending those of them that were not settled yet.
	Accepted int `json:"accepted"`
	Pending  int `json:"pending"`
	// DistinctKeys and DistinctReferences count over executions only.
	DistinctKeys       int `json:"distinct_keys"`
	DistinctReferences int `json:"distinct_references"`
	// Doubled counts references with more than one execution: a payment was made twice.
	Doubled int `json:"doubled"`
	// DoubledReferences names the doubled references, sorted, at most 100 of them.
	DoubledReferences []string `json:"doubled_references,omitempty"`
	// ExecutedAmounts is the executed total by currency, as decimal strings.
	ExecutedAmounts map[string]string `json:"executed_amounts"`
	// RefusedCodes counts refusals by reason.
	RefusedCodes map[string]int `json:"refused_codes"`
}

// Summarise adds up the records of one ledger.
func Summarise(records []Record) Summary {
	t := newTally()
	for _, r := range records {
		t.add(r)
	}
	return t.summary()
}

// tally is a Summary under construction. It is not safe for concurrent use.
type tally struct {
	records, executed, refused, accepted int

	keys    map[string]struct{}
	refs    map[string]int
	pending map[string]struct{}
	codes   map[string]int
	amounts map[string]*big.Int
}

func newTally() *tally {
	return &tally{
		keys:    map[string]struct{}{},
		refs:    map[string]int{},
		pending: map[string]struct{}{},
		codes:   map[string]int{},
		amounts: map[string]*big.Int{},
	}
}

func (t *tally) add(r Record) {
	t.records++
	switch r.Kind {
	case Accepted:
		t.accepted++
		t.pending[r.ID] = struct{}{}
	case Refused:
		t.refused++
		t.codes[r.Code]++
		delete(t.pending, r.ID)
	case Executed:
		t.executed++
		t.keys[r.Key] = struct{}{}
		t.refs[r.Reference]++
		delete(t.pending, r.ID)
		sum, ok := t.amounts[r.Currency]
		if !ok {
			sum = new(big.Int)
			t.amounts[r.Currency] = sum
		}
		if minor, err := parseAmount(r.Amount, r.Currency); err == nil {
			sum.Add(sum, minor)
		}
	}
}

func (t *tally) summary() Summary {
	s := Summary{
		Records:            t.records,
		Executed:           t.executed,
		Refused:            t.refused,
		Accepted:           t.accepted,
		Pending:            len(t.pending),
		DistinctKeys:       len(t.keys),
		DistinctReferences: len(t.refs),
		ExecutedAmounts:    map[string]string{},
		RefusedCodes:       map[string]int{},
	}
	for ref, n := range t.refs {
		if n > 1 {
			s.Doubled++
			s.DoubledReferences = append(s.DoubledReferences, ref)
		}
	}
	slices.Sort(s.DoubledReferences)
	s.DoubledReferences = s.DoubledReferences[:min(len(s.DoubledReferences), maxListed)]
	for currency, sum := range t.amounts {
		s.ExecutedAmounts[currency] = formatAmount(sum, currency)
	}
	maps.Copy(s.RefusedCodes, t.codes)
	return s
}
