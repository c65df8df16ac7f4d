package httpjson

import (
	"crypto/tls"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
)

// refusedAlerts are the alerts by which a bank rejects our certificate or asks for one (RFC 8446,
// section 6.2): bad, unsupported, revoked, expired, unknown certificate, unknown CA, access denied,
// certificate required. A plain handshake failure is not among them: a balancer in trouble sends
// that too, and only an operator can end the pause of a rail.
var refusedAlerts = []uint64{42, 43, 44, 45, 46, 48, 49, 116}

// brokenForAll reports whether the error that kept a request from leaving would also stop every
// other request of this rail, until an operator repairs trust, certificate or address. For
// addresses and for the bank's certificate see errAstray and errImpostor.
func brokenForAll(err error) bool {
	if errors.Is(err, errAstray) {
		return true
	}
	return errors.Is(err, errImpostor) || refusedByAlert(err)
}

// impostor reports whether a handshake has failed because what is at the address shows no certificate
// that is trusted as the bank's, or does not use TLS at all.
func impostor(err error) bool {
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return plain || tlsconf.Untrusted(err)
}

// refusedByAlert reports whether the bank has rejected our certificate or asked for one. By TLS 1.3 it
// does so after our side of the handshake is over, so that the request may have left by then.
func refusedByAlert(err error) bool {
	remote, ok := errors.AsType[*net.OpError](err)
	if !ok || remote.Op != "remote error" {
		return false
	}
	// crypto/tls does not export the type of an alert; its kind is uint8.
	alert := reflect.ValueOf(remote.Err)
	return alert.Kind() == reflect.Uint8 && slices.Contains(refusedAlerts, alert.Uint())
}

// plainly returns the text of an error. Package net/http names a function of its own where something came on a
// connection that had no request, and prints an error that it need not have.
func plainly(err error) string {
	before, after, found := strings.Cut(err.Error(), "readLoopPeekFailLocked: ")
	if !found {
		return err.Error()
	}
	if rest, none := strings.CutPrefix(after, "%!w(<nil>)"); none {
		return before + "the bank had sent something on the connection before the request, so that it was closed" + rest
	}
	return before + "the connection failed before the request: " + after
}
