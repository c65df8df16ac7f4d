package httpjson

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"reflect"
	"slices"
)

// refusedAlerts are those by which a bank rejects our certificate or asks for
// one (RFC 8446, section 6.2): bad, unsupported, revoked, expired, unknown
// certificate, unknown CA, access denied, certificate required. A plain
// handshake failure is not among them: a balancer in trouble says that too, and
// holding a rail takes a person to undo.
var refusedAlerts = []uint64{42, 43, 44, 45, 46, 48, 49, 116}

// brokenForAll reports whether what kept a request from leaving would keep
// every other one of this rail too, until an operator repairs trust, certificate
// or address. Of addresses see strayDials.
func brokenForAll(err error) bool {
	if errors.Is(err, errAstray) {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true // it does not speak TLS at all
	}
	remote, ok := errors.AsType[*net.OpError](err)
	if !ok || remote.Op != "remote error" {
		return false
	}
	// crypto/tls keeps the type of an alert to itself; its kind is uint8.
	alert := reflect.ValueOf(remote.Err)
	return alert.Kind() == reflect.Uint8 && slices.Contains(refusedAlerts, alert.Uint())
}
