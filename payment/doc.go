// Package payment defines instructions, amounts, attempts and their states, results
// and outcomes, and the pure rules that decide what follows from each.
//
// It imports the standard library only, uses neither network nor database, and
// reads no clock: every rule takes the times that it needs as arguments, so that a
// truth table can cover it completely. Servers, lanes and heartbeats belong to
// package outbox. The glossary in docs/glossary.md defines the words, which are the
// same in SQL, Go, metrics, logs and documents.
package payment
