// Package faults breaks a whole installation on purpose and counts what became
// of the money.
//
// One run is one fault and one seed: a database of its own, the product's own
// binary as relayers and reapers (built with the tag faultpoint, so that they
// can be stopped at named moments), two simulated banks as processes, and a
// caller that enqueues and keeps a journal of what was acknowledged. It has two
// phases. While the fault is on, nothing may be lost, paid twice or called what
// it is not (safety). Then everything heals, and everything has to end, or to
// wait for a person, within a bound (liveness).
//
// The oracle looks from outside: the banks' ledger files, which were on disk
// before any caller was told, the caller's journal, and the rows of the database
// read as its superuser. It takes the product's word for nothing. At the end the
// auditors' proofs (package proofs) run over the cell too; one that fails counts
// as something false.
//
// Every run prints its seed and all its options, and is repeated by
//
//	make faults FAULT=NAME SEED=N SEEDS=1
//
// What a run draws is the same each time. How the processes interleave is not:
// the seed gives the same faults at the same counts of the same points, and the
// machine decides the rest. A fault that no process ever met proves nothing:
// then the run fails.
//
// Every run becomes a line of the evidence, build/evidence/faults/runs.jsonl,
// with the digest of the programs that were run; lines are only appended. By
// itself a series counts runs of this very build, and makes those that are not
// there: its sum is about the code as it is. With -any-build (make faults
// SEEDS=20 ANY_BUILD=1) a seed that went well on an earlier build counts as run,
// and the line before the sum says from how many builds the runs are and how
// many are of this one. What went badly never drops out: it is made again on this
// build and told of, whatever came of the repetition; and what this build itself
// has lost, doubled or said falsely stays in its sum for good.
package faults
