package payment

// Verdict is what the ledger did with an outcome on the slow path.
type Verdict string

// The verdicts that record_late_outcome returns.
const (
	VerdictMine     Verdict = "MINE"     // written by an earlier try
	VerdictIn       Verdict = "IN"       // answered a claim that was still open
	VerdictSettled  Verdict = "SETTLED"  // late evidence ended the instruction: this one, or earlier proof
	VerdictLate     Verdict = "LATE"     // late and stored; nothing else changed
	VerdictRepeated Verdict = "REPEATED" // equal evidence is already stored
	VerdictConflict Verdict = "CONFLICT" // contradicts recorded evidence
	VerdictRetired  Verdict = "RETIRED"  // the month of the instruction has left the archive: nothing was stored
)

// Verdicts lists every verdict.
func Verdicts() []Verdict {
	return []Verdict{
		VerdictMine, VerdictIn, VerdictSettled, VerdictLate, VerdictRepeated, VerdictConflict, VerdictRetired,
	}
}
