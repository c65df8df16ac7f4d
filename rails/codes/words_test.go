package codes

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestSendWords: what a word of a send's answer and the code with it say.
func TestSendWords(t *testing.T) {
	words := SendWords{Table: named(t, "iso20022"), Words: map[string]Class{
		"DONE": Executed, "BUSY": Refused, "NO": Terminal, "SEE": ByCode, "REJECTED": ByCodeOrFirst, "SEEN": Duplicate,
		"CANC": ByCode, "ACSP": ByCode,
	}}
	for _, c := range []struct {
		word, code string
		want       Said
	}{
		{"DONE", "", Said{Executed, "", false, false}},
		{"DONE", "RR08", Said{Executed, "RR08", false, false}}, // a remark
		{"DONE", "ZZ99", Said{Executed, "ZZ99", false, false}},
		{"DONE", "AC04", Said{Unclear, "AC04", false, false}},
		{"NO", "AC04", Said{Terminal, "AC04", false, false}},
		{"NO", "AB09", Said{Terminal, "AB09", false, false}},
		{"NO", "AM05", Said{Unclear, "AM05", false, true}},
		{"BUSY", "DUPL", Said{Unclear, "DUPL", false, true}},
		{"NO", "AG09", Said{Unclear, "AG09", false, false}},
		{"NO", "ACSC", Said{Unclear, "ACSC", false, false}},
		{"SEEN", "AC04", Said{Duplicate, "AC04", false, true}},
		{"SEE", "AC04", Said{Terminal, "AC04", false, false}},
		{"SEE", "ACSC", Said{Executed, "ACSC", false, false}},
		{"SEE", "ZZ99", Said{"", "ZZ99", true, false}},
		{"SEE", "", Said{"", "", false, false}},
		{"REJECTED", "AC04", Said{Terminal, "AC04", false, false}},
		{"REJECTED", "AM05", Said{Duplicate, "AM05", false, true}},
		{"REJECTED", "AB09", Said{Unclear, "AB09", false, false}}, // listed, and silence on some rails
		{"REJECTED", "ZZ99", Said{FirstOnly, "ZZ99", true, false}},
		{"REJECTED", "", Said{FirstOnly, "", false, false}},
		{"REJECTED", "ACSC", Said{Unclear, "ACSC", false, false}},
		{"REJECTED", "G000", Said{Unclear, "G000", false, false}},
		// Words of the table: RJCT is T1 there.
		{"RJCT", "AM05", Said{Duplicate, "AM05", false, true}},
		{"RJCT", "ZZ99", Said{FirstOnly, "ZZ99", true, false}},
		{"RJCT", "", Said{FirstOnly, "", false, false}},
		// Words of the table that are left to the code keep their sense against one that
		// says the opposite.
		{"CANC", "AM05", Said{Duplicate, "AM05", false, true}},
		{"CANC", "AC04", Said{Terminal, "AC04", false, false}},
		{"CANC", "ACSC", Said{Unclear, "ACSC", false, false}},
		{"CANC", "PDNG", Said{Unclear, "PDNG", false, false}},
		{"ACSP", "AC04", Said{Unclear, "AC04", false, false}},
		{"ACSP", "ACSC", Said{Executed, "ACSC", false, false}},
		{"ACSC", "AC04", Said{Unclear, "AC04", false, false}},
		{"ACTC", "", Said{InProgress, "", false, false}},
		{"ZZZZ", "AC04", Said{"", "ZZZZ", true, false}},
		{"ZZZZ", "AM05", Said{"", "ZZZZ", true, true}},
		{"", "AC04", Said{Terminal, "AC04", false, false}},
		{"", "", Said{}},
	} {
		if got := words.Read(c.word, c.code); got != c.want {
			t.Errorf("%q %q: %+v, want %+v", c.word, c.code, got, c.want)
		}
	}
}

// TestReportWords is the same for what a rail reports of an earlier payment.
func TestReportWords(t *testing.T) {
	const (
		exe  = payment.ResultExecuted
		ref  = payment.ResultRefused
		prog = payment.ResultInProgress
		nf   = payment.ResultNotFound
		una  = payment.ResultUnavailable
	)
	words := ReportWords{Table: named(t, "iso20022"), Words: map[string]payment.Result{
		"DONE": exe, "REFUSED": ref, "GONE": nf, "WAIT": prog, "WHAT": una, "SEE": ReportedByCode,
	}}
	for _, c := range []struct {
		word, code string
		want       payment.Result
		keptCode   string
		unmapped   bool
	}{
		{"DONE", "", exe, "", false},
		{"DONE", "RR08", exe, "RR08", false},
		{"DONE", "ZZ99", exe, "ZZ99", true},
		{"DONE", "AC04", una, "AC04", false},
		{"DONE", "AM05", una, "AM05", false},
		{"REFUSED", "", ref, "", false},
		{"REFUSED", "AC04", ref, "AC04", false},
		{"REFUSED", "AM04", ref, "AM04", false},
		{"REFUSED", "ZZ99", ref, "ZZ99", true},
		{"REFUSED", "AG09", una, "AG09", false}, // the question is refused
		{"REFUSED", "NARR", una, "NARR", false},
		{"REFUSED", "AM05", una, "AM05", false},
		{"REFUSED", "ACSC", una, "ACSC", false},
		{"GONE", "", nf, "", false},
		{"GONE", "AG09", nf, "AG09", false},
		{"GONE", "ACSC", una, "ACSC", false},
		{"WAIT", "AC04", prog, "AC04", false},
		{"WHAT", "ACSC", una, "ACSC", false},
		{"SEE", "AC04", ref, "AC04", false},
		{"SEE", "ACSC", exe, "ACSC", false},
		{"SEE", "AG09", nf, "AG09", false},
		{"SEE", "NARR", una, "NARR", false},
		{"SEE", "AM04", ref, "AM04", false},
		{"SEE", "ZZ99", una, "ZZ99", true},
		{"SEE", "", una, "", false},
		{"RJCT", "AC04", ref, "AC04", false},
		{"RJCT", "AG09", nf, "AG09", false},
		{"RJCT", "NARR", una, "NARR", false},
		{"RJCT", "ZZ99", una, "ZZ99", true},
		{"RJCT", "ACSC", una, "ACSC", false},
		{"RJCT", "", una, "RJCT", false},
		{"ACSC", "", exe, "ACSC", false},
		{"ACSC", "AC04", una, "AC04", false},
		{"CANC", "AG09", una, "AG09", false},
		{"PDNG", "", prog, "PDNG", false},
		{"ZZZZ", "", una, "ZZZZ", true},
		{"ZZZZ", "AC04", una, "AC04", true},
		{"", "AC04", una, "AC04", true},
	} {
		got := words.Read(c.word, c.code)
		if got.Result != c.want || got.Code != c.keptCode || got.Unmapped != c.unmapped {
			t.Errorf("%q %q: %+v, want %s, code %q, unmapped %v", c.word, c.code, got, c.want, c.keptCode, c.unmapped)
		}
		if got.Doubt != "" && got.Result != una {
			t.Errorf("%q %q: %+v is proven and doubted", c.word, c.code, got)
		}
	}
	// A word of the table that is left to the code does not change its sense.
	left := ReportWords{Table: words.Table, Words: map[string]payment.Result{"RJCT": ReportedByCode,
		"CANC": ReportedByCode, "ACSP": ReportedByCode}}
	for _, c := range []struct {
		word, code string
		want       payment.Result
	}{
		{"RJCT", "AC04", ref}, {"RJCT", "AG09", nf}, {"RJCT", "ACSC", una}, {"RJCT", "PDNG", una}, {"CANC", "ACCC", una},
		{"ACSP", "ACSC", exe}, {"ACSP", "AC04", una}, {"ACSP", "AG09", nf},
	} {
		if got := left.Read(c.word, c.code); got.Result != c.want || (got.Doubt != "") != (c.want == una) {
			t.Errorf("%q, left to the code, %q: %+v, want %s", c.word, c.code, got, c.want)
		}
	}
	// Codes that describe the call neither prove nor take back anything.
	calls := ReportWords{Table: named(t, "http"), Words: map[string]payment.Result{"DONE": exe, "SEE": ReportedByCode}}
	for word, want := range map[string]payment.Result{"DONE": exe, "SEE": una} {
		for _, code := range []string{"200", "404", "409", "500"} {
			if got := calls.Read(word, code); got.Result != want {
				t.Errorf("%s HTTP %s: %+v, want %s", word, code, got, want)
			}
		}
	}
}
