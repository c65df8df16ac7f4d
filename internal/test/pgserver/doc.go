// Package pgserver runs a private PostgreSQL: the database of `make run`, of the tests and of the
// proofs.
//
// A server is a child of the process that starts it and never outlives it. It listens on a unix
// socket inside a folder of mode 0700 that belongs to the account the server runs as. That folder
// is the whole access control: local authentication is "trust", because an account that can reach
// the socket could read the data files as well. TCP is off unless [Options].TCP asks for a loopback
// address, and TCP always requires a password (scram-sha-256), because a loopback port is open to
// every account of the machine.
//
// PostgreSQL refuses to run as root, so for root the package drops to an unprivileged account, for
// the processes of PostgreSQL only.
//
// What a crash of the starting process leaves, and who repairs it:
//
//   - The server: on Linux the kernel sends it SIGQUIT (parent-death signal); elsewhere a small
//     watching shell does. One that survived even this is found by the next [Start] on the same
//     data folder and stopped.
//   - Temporary folders (rh-* below the temporary root): removed by the next Start of the same
//     account. The owner holds a file lock on them, so a live server is never mistaken for a
//     leftover.
//   - A half-made data folder: initdb works next to the final path, and the rename is its last
//     step.
package pgserver
