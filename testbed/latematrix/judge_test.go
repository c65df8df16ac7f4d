package latematrix_test

// view is what the product says of one payment.
type view struct {
	state        string // of its last row that is not LATE_OUTCOME; empty: none
	result       string // of that row
	waiting      bool   // in pending, and how it waits there
	action       string
	waitsUnknown bool
	aside        bool   // never due again by itself
	letter       string // the reason of its open dead letter; empty: none is open
	hadLetter    bool
	payload      bool // some row holds it
	dispatched   int  // DISPATCHED rows
	cancelled    bool
	rows         string // for messages
}

func (v view) inFlight() bool {
	return !v.waiting && (v.state == "DISPATCHING" || v.state == "INQUIRING")
}

// judge returns the names of the rules that the product's view breaks.
func (f *facts) judge(v view) []string {
	var all []string
	if v.inFlight() {
		// Evidence that came meanwhile is judged together with the claim's answer.
		return f.judgeRows(v)
	}
	conflict := v.letter == "CONFLICT"
	ended := !v.waiting && (v.state == "FAILED" || v.state == "CANCELLED")
	switch {
	case f.isPaid() && !conflict && (v.state != "DISPATCHED" || v.waiting):
		all = append(all, "it was executed, and is not called DISPATCHED or CONFLICT")
	case len(f.proven) > 1 && !conflict:
		all = append(all, "it was executed twice, and no conflict is open")
	case f.torn() && !conflict:
		all = append(all, "the bank executed what it had refused, and no conflict is open")
	case f.inDoubt() && ended && !conflict:
		all = append(all, "a send has no trustworthy answer, and the payment is called ended")
	case f.inDoubt() && v.waiting && !v.waitsUnknown:
		all = append(all, "a send has no trustworthy answer, and the payment waits as if none had been made")
	}
	if v.waiting && v.action == "SEND" && !v.waitsUnknown && !v.aside {
		if why := f.mayNotSend(); why != "" {
			all = append(all, "it waits to be sent: "+why)
		}
	}
	if v.state == "DISPATCHED" && !f.everPaid {
		all = append(all, "it is called DISPATCHED without proof")
	}
	if v.state == "FAILED" && v.result == "NOT_FOUND" {
		all = append(all, "it is called FAILED by the word of an index alone")
	}
	switch {
	case v.waiting, v.state == "DISPATCHED", v.state == "CANCELLED", v.letter != "":
	case v.state == "FAILED" && v.hadLetter:
	default:
		all = append(all, "it is lost: it neither waits nor has ended, and no dead letter is open")
	}
	return append(all, f.judgeRows(v)...)
}

func (f *facts) judgeRows(v view) []string {
	var all []string
	if !v.payload {
		all = append(all, "no row holds its payload")
	}
	if v.dispatched > 1 {
		all = append(all, "it has two DISPATCHED rows")
	}
	return all
}

// mayNotSend returns why an automatic send would be wrong, or "".
func (f *facts) mayNotSend() string {
	switch {
	case f.isPaid():
		return "it was executed"
	case f.taken:
		return "the bank has taken it, and its last word is to come"
	case f.notNow && !f.bank.again:
		return "the bank has refused the key, and takes it no more"
	case f.inDoubt() && !f.bank.dedupes:
		return "a send has no trustworthy answer, and the bank does not de-duplicate"
	case f.inDoubt() && f.overdue:
		return "it may be executed for the first time after expires_at"
	default:
		return ""
	}
}
