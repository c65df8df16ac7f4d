// Package schedule decides what is claimed next. It is pure: it sees lanes, claims
// and times, and knows no SQL, no connection and no rail.
//
// One claim, in call order:
//
//	Cursors.Plan     from where each lane is scanned, and which of its participants
//	                 come first
//	(the claim)      one statement takes what is due
//	Cursors.Learn    up to where each lane has been claimed, and which participants
//	                 fill it; Cursors.Forget where the claim did not commit
//
// What is learned is kept by lane and in memory alone. A process that starts knows
// nothing of its lanes and begins with full rescans: what is lost with a process costs
// time, and changes no payment.
package schedule
