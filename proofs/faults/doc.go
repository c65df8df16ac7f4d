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
// before anybody was told, the caller's journal, and the rows of the database
// read as its superuser. It takes the product's word for nothing.
//
// Every run prints its seed and all its options, and is repeated by
//
//	go run ./proofs/faultsrun -fault NAME -seed N
//
// What a run draws is the same each time. How the processes interleave is not:
// the seed gives the same faults at the same counts of the same points, and the
// machine decides the rest. A fault that no process ever met proves nothing:
// then the run fails.
package faults
