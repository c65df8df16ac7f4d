package outbox_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

var noon = time.Date(2026, 7, 29, 12, 0, 0, 0, time.UTC)

func TestOpenSuspension(t *testing.T) {
	t.Parallel()
	ended, open := outbox.Suspension{}, outbox.Suspension{}
	ended.AcceptedAt = noon
	ended.ID, open.ID = payment.NewID(), payment.NewID()
	server := outbox.Server{Suspensions: []outbox.Suspension{open, ended}}
	if found, ok := server.OpenSuspension(); !ok || found.ID != open.ID {
		t.Errorf("found %v, %t", found.ID, ok)
	}
	if !server.HasAccepted(ended.ID) || server.HasAccepted(open.ID) || server.HasAccepted(payment.NewID()) {
		t.Error("accepted is what an operator has ended")
	}
	if _, ok := (outbox.Server{Suspensions: []outbox.Suspension{ended}}).OpenSuspension(); ok {
		t.Error("one that has ended is open")
	}
}

func TestSameServer(t *testing.T) {
	t.Parallel()
	one := outbox.Server{SystemIdentifier: "71", Timeline: 1, StartedAt: noon, LogPosition: 5, Now: noon}
	for name, change := range map[string]func(*outbox.Server){
		"another identifier": func(s *outbox.Server) { s.SystemIdentifier = "72" },
		"another timeline":   func(s *outbox.Server) { s.Timeline = 2 },
		"another start":      func(s *outbox.Server) { s.StartedAt = noon.Add(time.Microsecond) },
	} {
		other := one
		change(&other)
		if one.Same(other) {
			t.Errorf("%s is the same", name)
		}
	}
	later := one
	later.Now, later.LogPosition = noon.Add(time.Hour), 6
	if !one.Same(later) {
		t.Error("it is the same an hour later")
	}
}
