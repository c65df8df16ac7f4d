// Package schedule decides what is claimed next. It is pure: it sees lanes, claims
// and times, and knows no SQL, no connection and no rail.
//
// One claim, in call order:
//
//	Lane.Begin       which lanes a turn may ask: one whose rows can't be claimed rests
//	Plan             how many instructions each lane may have of the turn, and whether
//	                 they go to the rows that are longest due
//	Cursors.Plan     from where each lane is scanned, and which of its participants
//	                 come first
//	(the claim)      one statement takes what is due
//	Cursors.Learn    up to where each lane has been claimed, and which participants
//	                 fill it; Cursors.Forget where the claim did not commit
//	Ask.Learn        whether a lane may have more due, and for how many the next turn
//	                 asks; Lane.Stop where its rows can't be claimed
//
// The relayer makes the first, second and last step, because it holds the slots of its
// rails; the ledger makes those between, around the statement.
//
// What is learned is kept by lane and in memory alone. A process that starts knows
// nothing of its lanes and begins with full rescans: what is lost with a process costs
// time, and changes no payment.
package schedule
