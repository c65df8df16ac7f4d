// Package outbox is what the services and the store of the outbox say to each other.
//
// It holds what a turn records and claims, and which claims are due for repair (Turn,
// ClaimRequest, StaleQuery); what components say of themselves and learn from it
// (Heartbeat, TimeBudget, RailRow); what the database server says of itself, and when it
// may have forgotten something (Server, Suspension, Remembered); what callers over HTTP
// and their endpoints are told (Bearer, Subscription, DueEvents); and how the store
// refuses: its errors, its SQLSTATEs, and the Fault of one instruction.
//
// The rules about payments are of package payment, which knows nothing of this one.
package outbox
