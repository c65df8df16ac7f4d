package payment

// Verdict is what the ledger did with an outcome on the slow path.
type Verdict string

// The words that record_late_outcome returns.
const (
	VerdictMine     Verdict = "MINE"     // written by an earlier try
	VerdictIn       Verdict = "IN"       // answered a claim that was still open
	VerdictSettled  Verdict = "SETTLED"  // late evidence ended the instruction: this one, or proof that came before it
	VerdictLate     Verdict = "LATE"     // late, stored, nothing more changed
	VerdictRepeated Verdict = "REPEATED" // equal evidence is stored already
	VerdictConflict Verdict = "CONFLICT" // contradicts what is recorded
	VerdictRetired  Verdict = "RETIRED"  // the instruction has left the archive with its month: nothing was stored
)

// Verdicts lists every word.
func Verdicts() []Verdict {
	return []Verdict{VerdictMine, VerdictIn, VerdictSettled, VerdictLate, VerdictRepeated, VerdictConflict, VerdictRetired}
}
