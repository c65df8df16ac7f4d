// Package schedule decides which instructions are claimed next. It is pure: it works on
// lanes, claims and times, without SQL, connections or rails.
//
// The steps of one claim are, in call order:
//
//	Lane.Begin       selects the lanes of a turn: a lane whose rows can't be claimed rests
//	Plan             shares the turn's slots among the lanes, and decides whether they
//	                 are for the rows that have been due longest
//	Cursors.Plan     decides where the scan of each lane begins, and which of its
//	                 participants come first
//	(the claim)      takes the due rows, in one statement
//	Cursors.Learn    keeps up to where each lane has been claimed, and which participants
//	                 fill it; Cursors.Forget if the claim did not commit
//	Ask.Learn        keeps whether a lane may have more due rows, and how many the next
//	                 turn asks for; Lane.Stop if its rows can't be claimed
//
// The relayer makes the first two steps and the last, because it has the slots of its
// rails. The ledger makes those around the statement.
//
// The state is kept for each lane, in memory only. A process starts without it, with full
// rescans: its loss costs time, and changes no payment.
package schedule
