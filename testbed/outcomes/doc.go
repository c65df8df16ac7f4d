// Package outcomes proves, cell by cell, what becomes of a send whose answer is
// lost or whose worker is killed, for every result that the rail has to say and
// every shape of profile: the bank executes at most once, the instruction ends
// where an independent table says, and an operator is needed only where the table
// parks it. The banks are simulated ones behind real sockets, each de-duplicating
// only where its profile says so. It is all tests.
package outcomes
