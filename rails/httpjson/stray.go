package httpjson

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A name server may lead the bank's name to no bank for a moment: a sinkhole, a
// captive portal or a broken resolver answers 0.0.0.0 or an address of its own
// network. The payment is NOT_SENT then and comes again, as where there is no
// answer at all. The whole rail is held (REFUSED_RAIL, which an operator has to
// undo) only where that would not change by itself:
//
//   - the configured host is such an address itself, or
//   - at least strayDials dials in a row, the first of them at least strayFor ago,
//     found forbidden addresses only. A dial that finds a permitted one, answered or
//     not, ends the row; one that finds no address at all is not counted.
//
// Calls that fail together are one moment, whatever their number: hence the time.
// Each process counts for itself.
const (
	strayDials = 3
	strayFor   = time.Minute
)

var (
	// errForbidden is what dialling an address that no bank has ends with.
	errForbidden = errors.New("the address is not one that a bank can have")
	// errAstray is errForbidden where an operator has to repair it.
	errAstray = errors.New("the configured host leads to no bank")
)

// strays are the dials in a row that found forbidden addresses only.
type strays struct {
	mu    sync.Mutex
	dials int
	since time.Time
}

// another counts one more, and reports whether the row is too long.
func (s *strays) another(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dials == 0 {
		s.since = now
	}
	s.dials++
	return s.dials >= strayDials && now.Sub(s.since) >= strayFor
}

// end is for a dial that found a permitted address.
func (s *strays) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials = 0
}

// isLiteral reports whether the host of an address is no name.
func isLiteral(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}
