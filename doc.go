// Package railhead puts payment instructions into a transactional outbox in PostgreSQL and reports what became of them.
//
// A service that must pay inserts a payment instruction in the same transaction as its own rows, or in one of the outbox's. From
// then on the instruction is durable: a relayer claims it, sends it to its payment rail, on its own at most as often as the rail's
// profile allows, and appends every attempt and its outcome to an archive that no role of Railhead can change. The caller asks for the
// status, or waits for the outcome.
//
// There are two ways in, and both are an [Outbox]:
//
//   - [Client] speaks SQL with a login of the role railhead_ingest. [Client.EnqueueTx] enqueues in the caller's own
//     transaction, so that the instruction exists if and only if the caller's other rows do.
//   - [HTTPClient] calls the HTTP API with a bearer token, and needs no login to the database.
//
// # Idempotency
//
// Each payment that is meant has one InstructionID and one IdempotencyKey, both chosen by the caller and both repeated with
// every retry. Any call may be repeated after any error: the same two with the same content return the receipt of the first
// call, with Replayed set, and never make a second instruction. A fresh key, or a fresh InstructionID, per retry is how a
// payment is made twice: by SQL an old key with a new InstructionID is a new payment, and over HTTP it is refused.
//
// # Errors
//
// A refused instruction is a *[Fault], which names the field and the rule that it breaks; branch on it with errors.Is and
// [ErrConflict], [ErrInvalid] or [ErrEnqueueClosed]. After [ErrCommitUnknown] the instruction may or may not be stored: repeat
// the call. After [ErrBusy] nothing was stored.
//
// # Outcomes
//
// [Status.Certainty] is what is known about the money, in words whose meaning does not depend on the state of the machinery:
// an outcome that the rail did not confirm is OUTCOME_UNKNOWN and never reported as a failure. [Status.HasEnded] reports
// whether Railhead does nothing more by itself.
//
// # Stability
//
// This package is the only one of the module whose exported names are kept stable. Until version 1.0 a minor release may
// still change them, which CHANGELOG.md says. Rail adapters are written against package rails and its test kit
// rails/railtest.
package railhead
