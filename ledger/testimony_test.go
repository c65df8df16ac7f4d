package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestEvidenceIsNotTheRailsWord resolves from every state that allows it: the certainty
// names the login and the document, no row shows the evidence as an answer of the rail,
// and a replay after it does not make it one.
func TestEvidenceIsNotTheRailsWord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	o, looker := d.operator(), openReader(t, d.Cell)
	for name, bring := range plights {
		for _, end := range []struct {
			hand           int
			want           reader.Certainty
			says, document string
		}{
			{5, reader.ExecutedByEvidence, "EXECUTED", "statement 146"},
			{7, reader.NotExecutedByEvidence, "NOT_EXECUTED", "ticket 4711"},
		} {
			id := bring(d)
			wants := operatorTable[name]
			if strings.HasPrefix(wants[min(end.hand, len(wants)-1)], "RH") {
				continue
			}
			what := name + ", " + hands[end.hand].name
			d.must(hands[end.hand].do(o, t, id))
			look := func() reader.Timeline {
				line, err := looker.Timeline(t.Context(), id)
				d.must(err)
				word, why := line.Certainty()
				same(t, what+": certainty", word, end.want)
				if start := "by evidence of " + celltest.Operator + ", " + end.document + " (row "; !strings.HasPrefix(why, start) {
					t.Errorf("%s: %s, want %s...", what, why, start)
				}
				if by := line.Testimony(); by == nil || by.Login != celltest.Operator || by.Document != end.document ||
					by.Date == "" {
					t.Errorf("%s: testimony %+v", what, by)
				}
				return line
			}
			for _, row := range look().Attempts {
				if row.ErrorCode == payment.CodeResolved && (row.Result != "" || row.Evidence != end.says) {
					t.Errorf("%s: row %d has the result %q and the evidence %q", what, row.AttemptNo, row.Result, row.Evidence)
				}
			}
			if err := hands[4].do(o, t, id); err == nil {
				what += ", replayed"
				look()
			}
		}
	}
	followed := []string{}
	tail, err := looker.Tail(reader.TailFilter{Since: 10 * 60e9})
	d.must(err)
	_, err = tail.Read(t.Context(), func(row reader.AttemptEvent) error {
		if row.ErrorCode == payment.CodeResolved {
			followed = append(followed, row.Result+row.Evidence)
		}
		return nil
	})
	d.must(err)
	slices.Sort(followed)
	same(t, "what a tail says of resolutions", strings.Join(slices.Compact(followed), " "), "EXECUTED NOT_EXECUTED")
}

// TestReferenceOfEvidence: callers are given the reference of the evidence that an
// execution rests on, as an operator is shown it, and until then that of the rail.
func TestReferenceOfEvidence(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ingest, looker := openIngest(t, d.Cell, 1), openReader(t, d.Cell)
	for _, proven := range []string{"ref-1", "ref-2", "ref-3"} { // the last is in no row
		first, second := thenClaimed(d)
		mine := func(reference string) string { return reference + "/" + first.OutboxID.String() }
		look := func(certainty reader.Certainty, reference string) {
			t.Helper()
			status, err := ingest.Status(t.Context(), d.keyOf(first.OutboxID))
			d.must(err)
			same(t, "certainty", status.Certainty, string(certainty))
			same(t, "reference", status.RailReference, mine(reference))
		}
		d.record(told(sameKey, second, payment.ResultAccepted, mine("ref-1")))
		look(reader.RailAccepted, "ref-1")
		same(t, "late", d.late(told(sameKey, first, payment.ResultAccepted, mine("ref-2"))), payment.VerdictConflict)
		look(reader.Contradicted, "ref-1")
		_, err := d.operator().ResolvePayment(t.Context(), first.OutboxID, stated(mine(proven)))
		d.must(err)
		look(reader.ExecutedByEvidence, proven)
		line, err := looker.Timeline(t.Context(), first.OutboxID)
		d.must(err)
		if _, why := line.Certainty(); !strings.HasSuffix(why, "reference "+mine(proven)+")") {
			t.Errorf("an operator is shown %q, want %s", why, mine(proven))
		}
	}
}
