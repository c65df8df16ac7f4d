//go:build faultpoint

package faultpoint

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Enabled reports whether this build tells a proof of its points.
const Enabled = true

// listening is what the environment asks to be told.
var listening = sync.OnceValue(func() map[Point]bool {
	points := make(map[Point]bool)
	if os.Getenv(EnvSocket) == "" {
		return points
	}
	for name := range strings.SplitSeq(os.Getenv(EnvPoints), ",") {
		points[Point(name)] = true
	}
	return points
})

// Reach tells the proof that the point is reached, and returns once it may go
// on. Every call has a connection of its own, so that calls on many goroutines wait
// concurrently. A proof that is gone holds no call up.
func Reach(p Point) {
	if !listening()[p] {
		return
	}
	conn, err := net.Dial("unix", os.Getenv(EnvSocket))
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%d %s\n", os.Getpid(), p); err != nil {
		return
	}
	// Whatever comes, or the end of the connection, means go on; a duration after the
	// word puts the wall clock ahead first.
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	_, by, _ := strings.Cut(strings.TrimSpace(answer), " ")
	if d, err := time.ParseDuration(by); err == nil {
		ahead.Add(int64(d))
	}
}

var ahead atomic.Int64

// WallAhead is how far the proof has put the wall clock of this process ahead of
// its monotonic one, as a virtual machine finds it that was suspended.
func WallAhead() time.Duration { return time.Duration(ahead.Load()) }
