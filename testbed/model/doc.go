// Package model holds the ledger against a model of it: enqueue, claims of two
// workers, answers in any order, crashes, the reaper, late outcomes, callbacks that
// are repeated or bear the id of another, cancel, replay, resolve, expiry, and
// restores of the database, as a property test draws them. After every
// step the database must say what the model says, and neither may say anything
// of the money that the simulated rail knows to be false.
//
//	make test PKG=./testbed/model                               a few dozen histories
//	make test PKG=./testbed/model ARGS="-rapid.checks 5000"     as many as you like
package model
