package codes

import "github.com/railhead-pay/railhead/payment"

// What a rail's statuses may give a word instead of a class: the class of the code
// that comes with it.
const (
	// ByCode leaves everything to the code. Without one, or with one that no table
	// lists, nothing is proven.
	ByCode Class = "CODE"
	// ByCodeOrFirst is for a word that refuses by itself, as RJCT does: a code that
	// the table lists decides, and without one, or with an unmapped one, the word
	// counts as T1. A listed U stays U: some rails give such a code for silence. A
	// code that accepts contradicts the word, and both prove nothing.
	ByCodeOrFirst Class = "CODE_OR_T1"
)

// ReportedByCode is ByCode where statuses give results: to words of an inquiry
// or of a callback.
const ReportedByCode = payment.Result(ByCode)

// SendWords reads what an answer to a send says by a status word and a code.
type SendWords struct {
	// Words are the rail's own, with a class each, ByCode or ByCodeOrFirst. Other
	// words are looked up in Table; one that is T1 there is read by ByCodeOrFirst.
	Words map[string]Class
	Table *Table
}

// Said is what a word and a code say together.
type Said struct {
	Class Class // empty: they don't say what happened
	// Code is the code, or else a word that is in no table; empty: there is neither.
	Code     string
	Unmapped bool // the table does not list Code
	// Duplicate is set where the word or the code says that the rail knows the key
	// already, whatever they prove together.
	Duplicate bool
}

// Read takes the word and the code of one answer; either may be empty, which
// means that the answer has none.
func (w SendWords) Read(word, code string) Said {
	entry, listed := w.Table.Find(code)
	class := ByCode
	if word != "" {
		var known bool
		if class, known = w.Words[word]; !known {
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

// opposes reports whether the table's own sense of a word that a profile leaves to the
// code can't be true with a code of this class: RJCT with ACSC.
func (t *Table) opposes(word string, code Class) bool {
	own, _ := t.Find(word)
	return own.Class.refuses() && code.Accepts() || own.Class.Accepts() && code.refuses()
}

// Accepts reports whether the class says that the rail took the payment.
func (c Class) Accepts() bool { return c == Executed || c == InProgress }

// refuses reports whether the class says that this send was not executed.
func (c Class) refuses() bool {
	switch c {
	case Terminal, FirstOnly, Refused, Business, Later, HoldRail:
		return true
	default:
		return false
	}
}

// contradict reports whether a word and a code of these classes can't both be
// true of one send. A word decides what a code leaves unclear.
func contradict(word, code Class) bool {
	if word.Accepts() {
		return !code.Accepts() && code != Unclear
	}
	return word.refuses() && (code.Accepts() || code == Duplicate || code == NotReceived)
}

// ReportWords reads what a rail reports by a status word and a code about a
// payment that it was sent before: in answer to an inquiry, or by a callback.
type ReportWords struct {
	// Words are the rail's own, with what each proves, or ReportedByCode. Other
	// words are looked up in Table; one that is T1 there leaves it to the code.
	Words map[string]payment.Result
	Table *Table
}

// Report is what a word and a code prove together about a payment.
type Report struct {
	Result payment.Result // UNAVAILABLE: nothing
	// Code is the code, or else a word that was looked up; empty: there is neither.
	Code     string
	Unmapped bool   // the table does not list Code, or not the word
	Doubt    string // why a word that was understood proves nothing; empty otherwise
}

// Read takes the word and the code of one report; an empty code means that there
// is none.
func (w ReportWords) Read(word, code string) Report {
	entry, listed := w.Table.Find(code)
	report := Report{Code: code, Unmapped: code != "" && !listed}
	result, known := w.Words[word]
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

// deny reports whether a code takes back what a word says about a payment. A
// rail that can't trace a payment rejects the question: "rejected", with a code
// for "never received" (N) or with one that says nothing of the payment (T1).
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
