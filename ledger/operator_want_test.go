package ledger_test

// Refusals that occur in many places.
const (
	noLetter  = "RH010 the instruction has no dead letter"
	isClosed  = "RH020 the dead letter is already closed (manual_replay)"
	mayBePaid = "RH020 some send of the instruction has no trustworthy answer: it may have been paid and can't be " +
		"cancelled"
	resolvable = ": it can't be resolved like this now"
	notAsked   = "RH020 the rail answers inquiries and was not asked within 15 minutes: the payment can't be resolved " +
		"as not executed without its answer"
	notSilent = "RH020 the rail answers inquiries and was not asked within 15 minutes: whether it would answer is not " +
		"known"
)

// operatorTable is the contract, written from the design and not from the
// functions: the rows that an act appends, what waits then, the dead letter; or
// the refusal and its sentence. The order of the columns is that of hands.
var operatorTable = map[string][]string{
	// Whatever waits and can't have been paid may be cancelled. If it was paid
	// after all, because a failover forgot its send, proof of that ends it.
	"pending, never sent":      waits("+ CANCELLED"),
	"pending, refused for now": waits("+ CANCELLED"),
	// Evidence ends it, not an operator's wish.
	"pending, outcome unknown":   provable(withoutLetter("UNKNOWN", mayBePaid)),
	"pending, to be asked about": provable(withoutLetter("UNKNOWN", mayBePaid)),
	"claimed":                    withoutLetter("DISPATCHING", "RH020 the instruction is DISPATCHING and can't be cancelled"),
	"DISPATCHED":                 withoutLetter("DISPATCHED", "RH020 the instruction is DISPATCHED and can't be cancelled"),
	// What has ended unpaid is known to have been paid by proof alone.
	"CANCELLED": provable(withoutLetter("CANCELLED", "RH020 the instruction is CANCELLED and can't be cancelled")),
	"FAILED": {
		"RH020 the instruction is FAILED and can't be cancelled",
		"+ , letter FAILED acknowledged", "+ , letter FAILED escalated", "+ , letter FAILED resolved",
		"+ REPLAYED, SEND sends=0 asked=0 count=3, letter FAILED manual_replay",
		"+ DISPATCHED, letter FAILED resolved", "RH020 the instruction is FAILED" + resolvable,
	},
	"EXPIRED": {
		"RH020 the instruction is FAILED and can't be cancelled",
		"+ , letter EXPIRED acknowledged", "+ , letter EXPIRED escalated", "+ , letter EXPIRED resolved",
		"+ REPLAYED, SEND sends=0 asked=0 count=2, letter EXPIRED manual_replay",
		"+ DISPATCHED, letter EXPIRED resolved", "RH020 the instruction is FAILED" + resolvable,
	},
	// What may have been paid ends by evidence alone.
	"PARKED, outcome unknown": {
		"RH020 the instruction is PARKED and can't be cancelled",
		"+ , letter OUTCOME_UNKNOWN acknowledged", "+ , letter OUTCOME_UNKNOWN escalated",
		"RH020 a dead letter of reason OUTCOME_UNKNOWN can't be closed by this act",
		"RH020 a dead letter of reason OUTCOME_UNKNOWN can't be replayed: the payment may have been made",
		"+ DISPATCHED, letter OUTCOME_UNKNOWN resolved", notAsked, notSilent,
	},
	// The rail's own word is evidence enough for a replay.
	"PARKED, just not found": {
		"RH020 the instruction is PARKED and can't be cancelled",
		"+ , letter OUTCOME_UNKNOWN acknowledged", "+ , letter OUTCOME_UNKNOWN escalated",
		"RH020 a dead letter of reason OUTCOME_UNKNOWN can't be closed by this act",
		"+ REPLAYED, SEND sends=0 asked=0 count=6 unknown, letter OUTCOME_UNKNOWN manual_replay",
		"+ DISPATCHED, letter OUTCOME_UNKNOWN resolved", "+ FAILED, letter FAILED acknowledged",
	},
	// Resolved as it was recorded, a contradiction needs no row: the log has it.
	"CONFLICT after FAILED": {
		"RH020 the instruction is CONFLICT and can't be cancelled",
		"+ , letter CONFLICT acknowledged", "+ , letter CONFLICT escalated",
		"RH020 a dead letter of reason CONFLICT can't be closed by this act",
		"RH020 a dead letter of reason CONFLICT can't be replayed: the payment may have been made",
		"+ DISPATCHED, letter CONFLICT resolved", notAsked, "+ , letter FAILED acknowledged",
	},
	"CONFLICT after DISPATCHED": {
		"RH020 the instruction is CONFLICT and can't be cancelled",
		"+ , letter CONFLICT acknowledged", "+ , letter CONFLICT escalated",
		"RH020 a dead letter of reason CONFLICT can't be closed by this act",
		"RH020 a dead letter of reason CONFLICT can't be replayed: the payment may have been made",
		"+ , letter CONFLICT resolved", notAsked, "+ FAILED, letter FAILED acknowledged",
	},
	// It was ended before it was ever sent, and stays so.
	"CONFLICT after CANCELLED": {
		"RH020 the instruction is CONFLICT and can't be cancelled",
		"+ , letter CONFLICT acknowledged", "+ , letter CONFLICT escalated",
		"RH020 a dead letter of reason CONFLICT can't be closed by this act",
		"RH020 a dead letter of reason CONFLICT can't be replayed: the payment may have been made",
		"+ DISPATCHED, letter CONFLICT resolved", notAsked, "+ , letter CONFLICT resolved",
	},
	// The money is certain; the letter stays for those who look for the forger.
	"TAMPERED, proven executed": {
		"RH020 the instruction is DISPATCHED and can't be cancelled",
		"+ , letter TAMPERED acknowledged", "+ , letter TAMPERED escalated", "+ , letter TAMPERED resolved",
		"RH020 a dead letter of reason TAMPERED can't be replayed: its payload is not the one that was enqueued",
		"RH020 the instruction is DISPATCHED" + resolvable, "RH020 the instruction is DISPATCHED" + resolvable,
	},
	"TAMPERED": {
		"RH020 the instruction is PARKED and can't be cancelled",
		"+ , letter TAMPERED acknowledged", "+ , letter TAMPERED escalated",
		"RH020 a dead letter of reason TAMPERED can't be closed by this act",
		"RH020 a dead letter of reason TAMPERED can't be replayed: its payload is not the one that was enqueued",
		"+ DISPATCHED, letter TAMPERED resolved", "+ FAILED, letter FAILED acknowledged",
	},
	// It waits in pending, where it was.
	"UNCLAIMABLE": {
		"+ CANCELLED, letter UNCLAIMABLE resolved",
		"+ , SEND sends=0 asked=0 count=0, letter UNCLAIMABLE acknowledged",
		"+ , SEND sends=0 asked=0 count=0, letter UNCLAIMABLE escalated",
		"RH020 a dead letter of reason UNCLAIMABLE can't be closed by this act",
		"+ , SEND sends=0 asked=0 count=0, letter UNCLAIMABLE manual_replay",
		"+ DISPATCHED, letter UNCLAIMABLE resolved", "RH020 the instruction is PENDING" + resolvable,
	},
	// Neither cancelled, as it may have been paid, nor without an end.
	"UNCLAIMABLE, outcome unknown": {
		mayBePaid,
		"+ , INQUIRE sends=1 asked=0 count=2 unknown, letter UNCLAIMABLE acknowledged",
		"+ , INQUIRE sends=1 asked=0 count=2 unknown, letter UNCLAIMABLE escalated",
		"RH020 a dead letter of reason UNCLAIMABLE can't be closed by this act",
		"+ , INQUIRE sends=1 asked=0 count=2 unknown, letter UNCLAIMABLE manual_replay",
		"+ DISPATCHED, letter UNCLAIMABLE resolved", notAsked, "+ FAILED, letter FAILED acknowledged",
	},
	"REPLAYED": {
		"+ CANCELLED, letter FAILED resolved", isClosed, isClosed, isClosed,
		"RH020 the instruction is PENDING and its dead letter is already closed (manual_replay)",
		"+ DISPATCHED, letter FAILED resolved", "RH020 the instruction is PENDING" + resolvable,
	},
}

// waits is what meets every act on what waits to be sent or asked about.
func waits(cancel string) []string { return provable(withoutLetter("PENDING", cancel)) }

// provable is for what proof of execution ends.
func provable(acts []string) []string {
	acts[5] = "+ DISPATCHED" // resolve executed
	return acts
}

// withoutLetter is what meets every act but cancel where no person was asked.
func withoutLetter(state, cancel string) []string {
	return []string{
		cancel, noLetter, noLetter, noLetter,
		"RH020 the instruction is " + state + " and has no dead letter to replay",
		"RH020 the instruction is " + state + resolvable, "RH020 the instruction is " + state + resolvable,
	}
}
