package codes

import "github.com/railhead-pay/railhead/payment"

// The values that a rail's statuses may give to a word instead of a class: the class of the code
// that comes with the word.
const (
	// ByCode lets the code decide. Without a code, or with one that no table lists, nothing is
	// proven.
	ByCode Class = "CODE"
	// ByCodeOrFirst is for a word that refuses by itself, as RJCT does. A code that the table lists
	// decides; without one, or with an unmapped one, the word counts as T1. A listed U remains U:
	// some rails send such a code when they get no answer. A code that accepts contradicts the
	// word, and the two prove nothing.
	ByCodeOrFirst Class = "CODE_OR_T1"
)

// ReportedByCode is ByCode for the words of an inquiry or a callback, whose statuses are results.
const ReportedByCode = payment.Result(ByCode)

// Unusable stands for a word or code that an answer has and that can't be compared or stored: no text, blank, too long,
// or with control characters. It is stored in its place. No table lists it, and no profile gives it a meaning.
const Unusable = "(unusable)"

// SendWords interprets the status word and the code of an answer to a send.
type SendWords struct {
	// Words maps the rail's own words to a class, ByCode or ByCodeOrFirst. Other words are looked
	// up in Table; one that is T1 there is read by ByCodeOrFirst.
	Words map[string]Class
	Table *Table
}

// Said is the combined meaning of a word and a code.
type Said struct {
	Class Class // empty: they leave the result open
	// Code is the code or, without one, a word that is in no table; empty if there is neither.
	Code     string
	Unmapped bool // the table does not list Code
	// Duplicate is set if the word or the code means that the rail already has the key, whatever
	// the two prove together.
	Duplicate bool
}

// Read interprets the word and the code of one answer; an empty one means that the answer has none.
func (w SendWords) Read(word, code string) Said {
	entry, listed := w.Table.Find(code)
	class := ByCode
	if word != "" {
		var known bool
		if class, known = w.Words[word]; !known || word == Unusable {
			found, ok := w.Table.Find(word)
			if !ok {
				return Said{Code: word, Unmapped: true, Duplicate: entry.Class == Duplicate}
			}
			if class = found.Class; class == FirstOnly {
				class = ByCodeOrFirst
			}
		}
	}
	said := Said{Code: code, Class: class, Duplicate: class == Duplicate || entry.Class == Duplicate}
	switch {
	case class == ByCode:
		said.Class, said.Unmapped = entry.Class, code != "" && !listed
		if w.Table.opposes(word, entry.Class) {
			said.Class = Unclear
		}
	case class == ByCodeOrFirst:
		said.Class, said.Unmapped = FirstOnly, code != "" && !listed
		if listed {
			said.Class = entry.Class
		}
		if said.Class.Accepts() {
			said.Class = Unclear
		}
	case listed && contradict(class, entry.Class):
		said.Class = Unclear
	}
	return said
}

// opposes reports whether the table's class of a word, which the profile leaves to the code,
// contradicts a code of this class: RJCT with ACSC.
func (t *Table) opposes(word string, code Class) bool {
	own, _ := t.Find(word)
	return own.Class.refuses() && code.Accepts() || own.Class.Accepts() && code.refuses()
}

// Accepts reports whether the class means that the rail took the payment.
func (c Class) Accepts() bool { return c == Executed || c == InProgress }

// refuses reports whether the class means that this send was not executed.
func (c Class) refuses() bool {
	switch c {
	case Terminal, FirstOnly, Refused, Business, Later, HoldRail:
		return true
	default:
		return false
	}
}

// contradict reports whether a word and a code of these classes can't both be true of one send. A
// word decides what a code leaves unclear.
func contradict(word, code Class) bool {
	if word.Accepts() {
		return !code.Accepts() && code != Unclear
	}
	return word.refuses() && (code.Accepts() || code == Duplicate || code == NotReceived)
}

// ReportWords interprets the status word and the code in a rail's report about an earlier payment:
// an answer to an inquiry, or a callback.
type ReportWords struct {
	// Words maps the rail's own words to what each proves, or to ReportedByCode. Other words are
	// looked up in Table; one that is T1 there leaves the decision to the code.
	Words map[string]payment.Result
	Table *Table
}

// Report is what a word and a code together prove about a payment.
type Report struct {
	Result payment.Result // UNAVAILABLE: nothing is proven
	// Code is the code or, without one, a word that was looked up; empty if there is neither.
	Code     string
	Unmapped bool   // the table does not list Code, or not the word
	Doubt    string // why a word with a meaning proves nothing; empty otherwise
}

// Read interprets the word and the code of one report; an empty code means that it has none.
func (w ReportWords) Read(word, code string) Report {
	entry, listed := w.Table.Find(code)
	report := Report{Code: code, Unmapped: code != "" && !listed}
	result, known := w.Words[word]
	known = known && word != Unusable
	byTable := Class("")
	if !known {
		found, ok := w.Table.Find(word)
		byTable = found.Class
		report.Unmapped = report.Unmapped || !ok
		if code == "" {
			report.Code = word
		}
		result, _ = w.Table.Classify(word, Context{Inquiry: true})
	}
	switch {
	case result == ReportedByCode && code == "":
		return report.doubt("the answer refers to a code and has none")
	case (result == ReportedByCode || byTable == FirstOnly) && listed && w.Table.opposes(word, entry.Class):
		return report.doubt("the word and the code contradict each other")
	case result == ReportedByCode || byTable == FirstOnly && listed:
		result, _ = w.Table.Classify(code, Context{Inquiry: true})
	case listed && !w.Table.ofCall && deny(result, entry.Class):
		return report.doubt("the word says " + string(result) + " and the code does not")
	}
	report.Result = result
	return report
}

func (r Report) doubt(why string) Report {
	r.Result, r.Doubt = payment.ResultUnavailable, why
	return r
}

// deny reports whether a code takes back what a word means for a payment. A rail that can't trace a
// payment rejects the inquiry: "rejected", with a code for "never received" (N), or with one that
// is not about the payment (T1).
func deny(word payment.Result, code Class) bool {
	switch word {
	case payment.ResultExecuted:
		return !code.Accepts() && code != Unclear
	case payment.ResultRefused:
		return code.Accepts() || code == Duplicate || code == NotReceived || code == FirstOnly
	case payment.ResultNotFound:
		return code.Accepts()
	default:
		return false
	}
}
