// Package latematrix brings late evidence to every reachable state of a payment:
// each kind of evidence, alone and followed by each other kind, and then each
// answer to the claim that is open, on rails of every shape. The payments go
// through the product's own statements, many of them in one cell.
//
// An oracle judges after every step. It shares no code with the product, and knows
// only what the scenario has made true: which sends may have left, which answers
// can be trusted, and what the bank has executed in each world that agrees with
// them. What it finds is a payment that was executed and is called otherwise, a
// send without an answer that is dropped, a second send that may be a second
// payment, a payload or a payment that is lost, an error that is no documented
// refusal, and a dead letter that can't be ended. It is all tests.
//
//	make test PKG=./testbed/latematrix   a part of the matrix, always the same
//	make late-matrix              the whole of it
//	make late-matrix ONE_OF=20    one of twenty combinations, on every rail
package latematrix
