package faults

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
)

// Director receives from the processes which points they reach, and holds those that a
// fault waits for.
type Director struct {
	listener net.Listener
	work     sync.WaitGroup

	mu   sync.Mutex
	arms []*arm
	held map[net.Conn]bool
	seen map[faultpoint.Point]int
}

// arm is a request to hold one process at one point.
type arm struct {
	pid   int
	point faultpoint.Point
	skip  int // how many times the process passes the point first
	reach chan *Hold
}

// Hold is a process that waits at a point.
type Hold struct {
	Point faultpoint.Point
	conn  net.Conn
	once  sync.Once
}

// Go lets the process continue. It has no effect on a process that has ended.
func (h *Hold) Go() { h.say("go\n") }

// GoLater lets the process continue with its wall clock advanced by the given time, like
// that of a virtual machine that was suspended for so long: its monotonic clock has stood
// still.
func (h *Hold) GoLater(by time.Duration) { h.say("go " + by.String() + "\n") }

func (h *Hold) say(word string) {
	h.once.Do(func() {
		_, _ = h.conn.Write([]byte(word))
		h.conn.Close()
	})
}

// newDirector returns a Director that listens on a unix socket.
func newDirector(socket string) (*Director, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listening for fault points: %w", err)
	}
	d := &Director{listener: listener, held: make(map[net.Conn]bool), seen: make(map[faultpoint.Point]int)}
	d.work.Go(d.serve)
	return d, nil
}

func (d *Director) serve() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		d.work.Go(func() { d.hear(conn) })
	}
}

func (d *Director) hear(conn net.Conn) {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		conn.Close()
		return
	}
	number, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		conn.Close()
		return
	}
	hold := &Hold{Point: faultpoint.Point(name), conn: conn}
	if found := d.match(pid, hold.Point); found != nil {
		found.reach <- hold // never blocks: the channel holds one, and each arm is reached once
		return
	}
	hold.Go()
}

// match counts a report. It removes and returns the arm that the report satisfies, or
// returns nil if there is none.
func (d *Director) match(pid int, point faultpoint.Point) *arm {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[point]++
	for n, each := range d.arms {
		if each.point != point || each.pid != pid {
			continue
		}
		if each.skip > 0 {
			each.skip--
			return nil
		}
		d.arms = append(d.arms[:n:n], d.arms[n+1:]...)
		return each
	}
	return nil
}

// Arm requests that a process be held at a point, after it has passed the point skip
// times. The process must have been started to report the point.
func (d *Director) Arm(pid int, point faultpoint.Point, skip int) <-chan *Hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := &arm{pid: pid, point: point, skip: skip, reach: make(chan *Hold, 1)}
	d.arms = append(d.arms, one)
	return one.reach
}

// Await waits, at most for within, until a process that was armed is held at its point.
func (d *Director) Await(ctx context.Context, reach <-chan *Hold, within time.Duration) (*Hold, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case hold := <-reach:
		return hold, nil
	case <-timer.C:
		return nil, fmt.Errorf("%w: no process reached the point within %s", await.ErrNotInTime, within)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// disarm removes the arms that no process has reached; a process that reaches such a
// point later passes it.
func (d *Director) disarm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, each := range d.arms {
		select {
		case hold := <-each.reach:
			hold.Go()
		default:
		}
	}
	d.arms = nil
}

func (d *Director) close() {
	d.disarm()
	d.listener.Close()
	d.work.Wait()
}
