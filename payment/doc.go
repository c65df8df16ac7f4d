// Package payment is Railhead's vocabulary: instructions, amounts, attempts and
// their states, results and outcomes, and the pure rules over them.
//
// It imports the standard library only, touches neither network nor database,
// and reads no clock: every rule takes the time it needs as an argument, so
// that a truth table can cover it whole. It knows nothing of servers, lanes or
// heartbeats: what the services and the store say to each other is of package
// outbox. The words are those of the glossary in docs/glossary.md and are the
// same in SQL, Go, metrics, logs and documents.
package payment
