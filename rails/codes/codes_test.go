package codes

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

func named(t *testing.T, name string) *Table {
	t.Helper()
	table, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestEveryClassInEveryContext is the whole truth table: the columns are a first
// send, a later send, a send of unknown number, each on a FINAL and on a
// PROVISIONAL rail, and an inquiry.
func TestEveryClassInEveryContext(t *testing.T) {
	const (
		acc  = payment.ResultAccepted
		fin  = payment.ResultRefusedFinal
		tra  = payment.ResultRefusedTransient
		biz  = payment.ResultRefusedBusiness
		lat  = payment.ResultRefusedLater
		rail = payment.ResultRefusedRail
		unk  = payment.ResultUnknown
		exe  = payment.ResultExecuted
		ref  = payment.ResultRefused
		prog = payment.ResultInProgress
		nf   = payment.ResultNotFound
		una  = payment.ResultUnavailable
	)
	table := map[Class][7]payment.Result{
		//            FINAL: first, later, ?    PROVISIONAL         inquiry
		Executed:    {acc, acc, acc, acc, acc, acc, exe},
		InProgress:  {unk, unk, unk, acc, acc, acc, prog},
		Terminal:    {fin, fin, fin, fin, fin, fin, ref},
		FirstOnly:   {fin, unk, unk, fin, unk, unk, una},
		Refused:     {tra, tra, tra, tra, tra, tra, una},
		Business:    {biz, biz, biz, biz, biz, biz, ref},
		Later:       {lat, lat, lat, lat, lat, lat, una},
		Duplicate:   {unk, unk, unk, unk, unk, unk, una},
		HoldRail:    {rail, rail, rail, rail, rail, rail, una},
		NotReceived: {unk, unk, unk, unk, unk, unk, nf},
		Unclear:     {unk, unk, unk, unk, unk, unk, una},
		"":          {unk, unk, unk, unk, unk, unk, una},
		"X":         {unk, unk, unk, unk, unk, unk, una},
	}
	for _, class := range Classes() {
		if _, ok := table[class]; !ok {
			t.Errorf("class %s is not in the table", class)
		}
	}
	final, provisional := payment.AcceptanceFinal, payment.AcceptanceProvisional
	contexts := [7]Context{
		{SendNo: 1, Acceptance: final}, {SendNo: 2, Acceptance: final}, {SendNo: 0, Acceptance: final},
		{SendNo: 1, Acceptance: provisional}, {SendNo: 9, Acceptance: provisional}, {SendNo: -1, Acceptance: provisional},
		{Inquiry: true, SendNo: 1, Acceptance: provisional},
	}
	for class, wants := range table {
		for n, want := range wants {
			if got := class.Result(contexts[n]); got != want {
				t.Errorf("class %q in %+v: %s, want %s", class, contexts[n], got, want)
			}
		}
	}
}

// TestClassesByAnswer tests acceptance BY_ANSWER: "executed" and "accepted" are distinguished, and
// nothing else differs from a provisional rail.
func TestClassesByAnswer(t *testing.T) {
	for _, class := range Classes() {
		for _, sendNo := range []int{1, 2, 0} {
			want := class.Result(Context{SendNo: sendNo, Acceptance: payment.AcceptanceProvisional})
			if class == Executed {
				want = payment.ResultExecuted
			}
			if got := class.Result(Context{SendNo: sendNo, Acceptance: payment.AcceptanceByAnswer}); got != want {
				t.Errorf("class %q to send %d: %s, want %s", class, sendNo, got, want)
			}
		}
	}
}

// TestOnlyProofIsProof tests that only the classes OK and P prove an execution, and in an inquiry
// only T and B a refusal.
func TestOnlyProofIsProof(t *testing.T) {
	for _, class := range append(Classes(), "", "?") {
		for sendNo := -1; sendNo < 5; sendNo++ {
			for _, acceptance := range []payment.Acceptance{"", payment.AcceptanceFinal, payment.AcceptanceProvisional} {
				for _, inquiry := range []bool{false, true} {
					got := class.Result(Context{Inquiry: inquiry, SendNo: sendNo, Acceptance: acceptance})
					if (got == payment.ResultAccepted || got == payment.ResultExecuted) && class != Executed &&
						(class != InProgress || inquiry || acceptance != payment.AcceptanceProvisional) {
						t.Errorf("%s proves %s", class, got)
					}
					if inquiry && (got == payment.ResultRefused || got == payment.ResultRefusedFinal) && class != Terminal &&
						class != Business {
						t.Errorf("%s proves %s in an inquiry", class, got)
					}
				}
			}
		}
	}
}

func TestTablesAreSound(t *testing.T) {
	sizes := map[string]int{
		"http": 42, "iso20022": 328, "iso8583": 91, "fspiop": 50, "none": 0,
		"fednow": 344, "rtp": 338, "sctinst": 329,
	}
	if len(Names()) != len(sizes) {
		t.Errorf("tables %v, want %d", Names(), len(sizes))
	}
	for name, least := range sizes {
		table := named(t, name)
		n := 0
		for entry := range table.All() {
			n++
			if entry.Source == "" || entry.Meaning == "" || strings.ToUpper(entry.Code) != entry.Code {
				t.Errorf("%s: %+v", name, entry)
			}
		}
		if n < least {
			t.Errorf("%s has %d codes, want at least %d", name, n, least)
		}
		if got, listed := table.Classify("no such code", Context{SendNo: 1}); got != payment.ResultUnknown || listed {
			t.Errorf("%s: an unmapped code is %s, listed %v", name, got, listed)
		}
		if got, listed := table.Classify("", Context{Inquiry: true}); got != payment.ResultUnavailable || listed {
			t.Errorf("%s: no code in an inquiry is %s, listed %v", name, got, listed)
		}
	}
	if _, err := Named("iso"); !errors.Is(err, ErrNoTable) {
		t.Errorf("got %v", err)
	}
}

// TestCodesThatMoveMoney pins the codes whose class no edit may change unnoticed, and those that
// are easily confused.
func TestCodesThatMoveMoney(t *testing.T) {
	for table, entries := range map[string]map[string]Class{
		"http": {"200": Executed, "201": Executed, "202": InProgress, "400": FirstOnly, "422": FirstOnly, "401": HoldRail, "403": HoldRail,
			"404": HoldRail, "405": HoldRail, "408": Unclear, "409": Unclear, "414": FirstOnly, "424": Unclear, "425": Later,
			"451": FirstOnly, "429": Later, "500": Unclear, "502": Unclear,
			"503": Unclear, "504": Unclear, "301": Unclear, "302": Unclear, "303": Unclear, "307": Unclear, "308": Unclear},
		"iso20022": {"ACSC": Executed, "ACCC": Executed, "ACSP": InProgress, "ACWC": InProgress, "ACTC": InProgress, "PDNG": InProgress, "RJCT": FirstOnly, "AC04": Terminal, "AM04": Business,
			"AM05": Duplicate, "DUPL": Duplicate, "AB05": Refused, "AB09": Unclear, "AG09": NotReceived, "NARR": FirstOnly, "NOAS": Unclear, "BLCK": Unclear, "FR01": Unclear, "MS03": Terminal, "TM01": Business},
		"fednow":  {"ACTC": InProgress, "ACWP": Executed, "AB09": Refused, "E997": Refused, "E411": InProgress},
		"rtp":     {"ACTC": Executed, "ACCP": InProgress, "DS24": Refused, "9909": Unclear},
		"sctinst": {"ACCP": InProgress, "ACTC": InProgress, "AB05": Refused, "AB09": Unclear},
		"iso8583": {"00": Executed, "05": Terminal, "10": Unclear, "19": FirstOnly, "51": Business, "68": Unclear, "90": Later, "91": Unclear, "94": Duplicate, "96": Unclear},
		"fspiop": {"2001": Unclear, "2003": Later, "2005": Later, "2004": Unclear, "3105": HoldRail, "3106": Duplicate, "3208": NotReceived, "3303": Unclear,
			"4001": Terminal, "5104": Terminal},
	} {
		for code, want := range entries {
			if got, ok := named(t, table).Find(code); !ok || got.Class != want {
				t.Errorf("%s %s is %q, want %q", table, code, got.Class, want)
			}
		}
	}
}

func TestHTTPStatusProvesNothingInAnInquiry(t *testing.T) {
	for entry := range named(t, "http").All() {
		if got, _ := named(t, "http").Classify(entry.Code, Context{Inquiry: true}); got != payment.ResultUnavailable {
			t.Errorf("HTTP %s proves %s about a payment", entry.Code, got)
		}
	}
}

// TestFamilies: section 7.6 of the FSPIOP definition.
func TestFamilies(t *testing.T) {
	table := named(t, "fspiop")
	for code, want := range map[string]Class{
		"5140": Terminal, "5199": Terminal, "2050": Unclear, "4299": Terminal, "3340": Unclear, // as xx00
		"5139": "", "5108": "", "5540": "", "514": "", "51400": "", "51A0": "", "6040": "", "٥١٤٠": "", // not listed
	} {
		got, listed := table.Find(code)
		if got.Class != want || listed != (want != "") {
			t.Errorf("%s is %q, listed %v, want %q", code, got.Class, listed, want)
		}
		if listed && got.Code != code {
			t.Errorf("%s is stored as %s", code, got.Code)
		}
	}
	if _, listed := named(t, "iso8583").Find("5140"); listed {
		t.Error("the rule is FSPIOP's alone")
	}
}

func TestOverrides(t *testing.T) {
	base := named(t, "iso20022")
	changed, err := base.With(map[string]Class{"AC04": Refused, "X001": Terminal})
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]struct {
		class  Class
		origin string
	}{"AC04": {Refused, "profile"}, "X001": {Terminal, "profile"}, "AC01": {Terminal, base.String()},
		"ZZZZ": {"", base.String()}} {
		entry, _ := changed.Find(code)
		if entry.Class != want.class || changed.Origin(code) != want.origin {
			t.Errorf("%s is %q by %s, want %q by %s", code, entry.Class, changed.Origin(code), want.class, want.origin)
		}
	}
	if entry, _ := base.Find("AC04"); entry.Class != Terminal {
		t.Error("an override changed the built-in table")
	}
	if _, err := base.With(map[string]Class{"A": "?", "": Terminal}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("both faults at once: %v", err)
	}
}

func TestWrite(t *testing.T) {
	table, err := named(t, "http").With(map[string]Class{"503": Refused})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := table.Write(&out, payment.AcceptanceFinal); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"table http, edition", "source 1: RFC 9110", "source 6: profile", "REFUSED_TRANSIENT",
		"anything else"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\t0\t") {
		t.Error("a code without a source")
	}
}

func TestParseNamesEachFault(t *testing.T) {
	_, err := Parse("table x\nabout us\nfamily tens\nsource a A\n01 T a Good\n01 T a Twice\n02 Q a Class\n03 T b " +
		"Source\n04 T\n")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"table x: line 3: family", "line 6: code 01", "line 7: class", "line 8: source",
		"line 9: a code needs", "table and edition"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

// TestBases: a table begins with the lines of its base, at any depth.
func TestBases(t *testing.T) {
	const (
		bottom = "table a\nedition 1\nabout call\nfamily hundreds\nsource s S\n01 T s One\n02 T s Two\n5100 T s Family\n"
		middle = "table b\nbase a\nedition 2\nsource m M\n02 R m Own two\n03 D m Three\n"
		top    = "table c\nbase b\nedition 3\nsource t T\n03 U t Own three\n"
	)
	all, err := Parse(top, middle, bottom)
	if err != nil {
		t.Fatal(err)
	}
	for table, codes := range map[string]map[string]Class{
		"a": {"01": Terminal, "02": Terminal, "03": ""},
		"b": {"01": Terminal, "02": Refused, "03": Duplicate},
		"c": {"01": Terminal, "02": Refused, "03": Unclear, "5140": Terminal},
	} {
		for code, want := range codes {
			if entry, _ := all[table].Find(code); entry.Class != want {
				t.Errorf("%s %s is %q, want %q", table, code, entry.Class, want)
			}
		}
		if got, _ := all[table].Classify("01", Context{Inquiry: true}); got != payment.ResultUnavailable {
			t.Errorf("%s is about calls as its base is, and proves %s in an inquiry", table, got)
		}
	}
	if got, want := all["c"].String(), "c@3+b@2+a@1"; got != want {
		t.Errorf("the edition is %s, want %s", got, want)
	}
	for what, texts := range map[string][]string{
		"based on itself":   {"table a\nbase a\nedition 1\n"},
		"based in a circle": {"table a\nbase c\nedition 1\n", middle, top},
		"no such table":     {middle},
		"two of one name":   {bottom, bottom},
		"an about too many": {bottom, middle + "about call\n"},
		"a family too many": {bottom, middle + "family hundreds\n"},
		"one line twice":    {bottom, middle + "03 D m Three\n"},
	} {
		if _, err := Parse(texts...); err == nil || !strings.HasPrefix(err.Error(), "code table ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCodesOfTheMessage tests codes of ISO 20022 about a message, a file or an unnamed field. They
// may also answer a status request, and so refuse no payment in answer to one.
func TestCodesOfTheMessage(t *testing.T) {
	text, err := os.ReadFile("tables/iso20022.txt")
	if err != nil {
		t.Fatal(err)
	}
	ofMessage := regexp.MustCompile(`(?i)\bfile\b|\belement is\b|Group Header|Group level|Payment Information level|Number of transactions|control sum|character set|\b(this|the) field\b|Content is incorrect|incomplete order|order was rejected`)
	seen := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(fields) < 4 || fields[2] != "reason" || !ofMessage.MatchString(fields[3]) {
			continue
		}
		if seen++; Class(fields[1]) == Terminal {
			t.Errorf("%s refuses the payment in answer to a question: %s", fields[0], fields[3])
		}
	}
	if seen < 20 {
		t.Errorf("%d codes are of a message", seen)
	}
}
