// Package outbox defines the types that the services and the store of the transactional
// outbox exchange.
//
// They are the turns that record outcomes and claim instructions, and the queries for
// claims that are due for repair (Turn, ClaimRequest, StaleQuery); the heartbeats of
// components and the settings that they read (Heartbeat, TimeBudget, RailRow); the
// identity of the database server, and when it may have lost rows (Server, Suspension,
// Remembered); the callers over HTTP and their events (Bearer, Subscription, DueEvents);
// and the refusals of the store: errors, SQLSTATEs, and the Fault of one instruction.
//
// Package payment has the rules about payments, and does not import this one.
package outbox
