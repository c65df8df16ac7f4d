// Package faultpoint names the moments at which crash tests stop a process.
//
// A service calls Reach where a crash leaves something that another process has
// to repair. In an ordinary build Reach does nothing and costs nothing. In a
// build with the tag faultpoint it tells the proof that started the process
// where it is, over the unix socket that EnvSocket names, and waits there to be
// told to go on: meanwhile the proof can kill it, freeze it, or cut its links.
package faultpoint

import "slices"

// Point is a moment in the work of a process.
type Point string

// The points of a relayer, in the order in which one instruction passes them.
const (
	Claiming  Point = "claiming"   // a claim is about to be sent, and its commit with it
	Claimed   Point = "claimed"    // claim rows are written, their transaction is open
	Committed Point = "committed"  // they are durable, and nothing was dialled yet
	Dialled   Point = "dialled"    // a connection to the rail is in hand
	FirstByte Point = "first byte" // the last check has passed, the next thing is the first byte
	Answered  Point = "answered"   // the rail's whole answer was read
	Recording Point = "recording"  // outcomes are written, their transaction is open
	Recorded  Point = "recorded"   // they are durable, and the process does not act on it yet
)

// The points of others. A reaper passes Recording and Recorded too.
const (
	StaleRead Point = "stale read" // a reaper has read open claims that are due, and appended nothing
	Enqueued  Point = "enqueued"   // a caller has enqueued, and its transaction is open
)

// What a build with the tag reads from the environment.
const (
	// EnvSocket is the unix socket of the proof. Without it nothing is told.
	EnvSocket = "RAILHEAD_FAULTPOINT_SOCKET"
	// EnvPoints names the points that are told, separated by commas.
	EnvPoints = "RAILHEAD_FAULTPOINT_POINTS"
)

// Relayer lists the points of a relayer.
func Relayer() []Point {
	return []Point{Claiming, Claimed, Committed, Dialled, FirstByte, Answered, Recording, Recorded}
}

// Reaper lists the points of a reaper.
func Reaper() []Point { return []Point{StaleRead, Recording, Recorded} }

// Known reports whether a name is that of a point.
func Known(p Point) bool {
	return p == Enqueued || slices.Contains(Relayer(), p) || slices.Contains(Reaper(), p)
}
