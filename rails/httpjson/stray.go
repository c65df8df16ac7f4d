package httpjson

import (
	"errors"
	"net"
	"net/netip"
)

// A name server may resolve the bank's name to addresses that no bank has for a while: a sinkhole,
// a captive portal or a broken resolver answers 0.0.0.0 or an address of its own network. Or something
// else is at the bank's address for a while: a captive portal, or another server of a balancer, with a
// certificate that is not trusted or without TLS. The payment is then NOT_SENT and is tried again, as
// without any answer. The whole rail is paused (REFUSED_RAIL, which an operator has to end) only if the
// condition would not end by itself:
//
//   - the configured host is such an address itself, or
//   - at least streak.Calls dials in a row, the first of them at least streak.For ago, found forbidden
//     addresses only. A dial that finds a permitted address, answered or not, ends the row; a dial that
//     finds no address at all is not counted, or
//   - as many handshakes in a row, over as long a time, found something that is not the bank. One with the
//     bank ends the row; one that fails in another way, or does not begin, is not counted.
//
// Calls that fail together are one event, whatever their number: hence the time. Each process
// counts for itself.
var (
	// errForbidden is the error of a dial to an address that no bank has.
	errForbidden = errors.New("the address is not one that a bank can have")
	// errAstray is errForbidden if an operator has to repair the cause.
	errAstray = errors.New("the configured host leads to no bank")
	// errImpostor is the error of a handshake with what is not the bank, if an operator has to repair the
	// cause.
	errImpostor = errors.New("for a minute or longer no trusted certificate was shown at the bank's address")
)

// isLiteral reports whether the host of an address is an IP address.
func isLiteral(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}
