// Package ha builds a highly available cell as docs/operations.md describes it, and
// breaks it under traffic.
//
// The cell is built by the blocks of the page's chapter "Build a highly available cell",
// as they are printed: three hosts with etcd, Patroni and PostgreSQL, and an HAProxy in
// front of them. Each host has addresses of its own in 127.0.0.0/8, and everything that
// reaches a host from another one goes through a proxy, so that a host can be cut off.
//
// A run breaks the primary again and again while callers enqueue, relayers and reapers
// work, and simulated banks pay. The oracle of package faults judges the whole run by the
// banks' ledgers, the callers' journals and the rows. In addition every break has rules
// of its own: the synchronous standby takes over and no other, the lanes of rails that do
// not de-duplicate wait for an operator, the operator finds nothing that the cell has
// forgotten, and writes are possible again within the bound.
package ha
