// Package faults injects faults into a complete installation and counts what
// became of the money.
//
// A run has one fault and one seed. It has a database of its own, the product's
// own binary as relayers and reapers (built with the tag faultpoint, so that they
// can be stopped at named points), two simulated banks as processes, and callers
// that enqueue and keep a journal of what was acknowledged. A run has two phases.
// While the fault is in force, no payment may be lost, executed twice or reported
// falsely (safety). Then the fault is healed, and every payment has to end, or to
// wait for an operator, within a bound (liveness).
//
// The oracle judges from outside. It reads the banks' ledger files, which are on
// disk before the bank answers, the callers' journals, and the rows of the database
// as its superuser. It relies on no statement of the product. At the end the
// auditors' proofs (package proofs) run over the cell too; one that fails counts as
// a false statement.
//
// Every run prints its seed and all its options, and is repeated by
//
//	make faults FAULT=NAME SEED=N SEEDS=1
//
// What a run draws is the same each time. How the processes interleave is not:
// the seed gives the same faults at the same counts of the same points, and the
// machine decides the rest. A run whose fault no process met proves nothing, and
// fails.
//
// Every run becomes a line of the evidence, build/evidence/faults/runs.jsonl,
// with the digest of the programs that were run; lines are only appended. By
// default a series counts the runs of the build under test, and makes those that
// are missing: its sum is about the code as it is. With -any-build (make faults
// SEEDS=20 ANY_BUILD=1) a seed that went well on an earlier build counts as run,
// and the line before the sum says from how many builds the runs are and how many
// are of this one. A run that went badly is never dropped: it is made again on this
// build and reported, whatever the result of the repetition. What this build itself
// has lost, doubled or reported falsely stays in its sum permanently.
package faults
