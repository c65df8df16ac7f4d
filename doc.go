// Package railhead stores payment instructions in a transactional outbox in PostgreSQL and
// reports their outcomes.
//
// A service that must pay inserts a payment instruction in the same transaction as its own
// rows, or in a transaction of its own. From then on the instruction is durable: a relayer
// claims it, sends it to its payment rail, on its own at most as often as the rail's profile
// allows, and appends every attempt and its outcome to an archive that no role of Railhead can
// change. The caller reads the status, or waits for the outcome.
//
// There are two clients, and both implement [Outbox]:
//
//   - [Client] uses SQL, with a login of the role railhead_ingest. [Client.EnqueueTx] enqueues
//     in the caller's own transaction, so that the instruction exists if and only if the
//     caller's other rows do.
//   - [HTTPClient] calls the HTTP API with a bearer token, and needs no login to the database.
//
// # Idempotency
//
// Each payment has one InstructionID and one IdempotencyKey. The caller chooses both, and must
// repeat both with every retry. Any call may be repeated after any error: with the same two and
// the same content it returns the receipt of the first call, with Replayed set, and never makes
// a second instruction. With a new key or a new InstructionID a retry is a second payment: by
// SQL an old key with a new InstructionID is a new payment, and over HTTP it is refused.
//
// # Errors
//
// A refused instruction is a *[Fault], which names the invalid field and the violated rule;
// branch on it with errors.Is and [ErrConflict], [ErrInvalid] or [ErrEnqueueClosed]. After
// [ErrCommitUnknown] the instruction may or may not be stored: repeat the call. After [ErrBusy]
// nothing was stored.
//
// # Outcomes
//
// [Status.Certainty] is what is known about the money, independently of the state of the
// instruction: an outcome that the rail did not confirm is OUTCOME_UNKNOWN and never reported as
// a failure. [Status.HasEnded] reports whether Railhead takes no further action by itself.
//
// # Stability
//
// This package is the only one of the module whose exported names are kept stable. Until version
// 1.0 a minor release may still change them; CHANGELOG.md lists such changes. Rail adapters use
// package rails and its test kit rails/railtest.
package railhead
