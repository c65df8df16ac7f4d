package nats

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/rails"
)

// TestCallersContentType tests that a message has one content type, the adapter's, also by a profile in force that
// lists the caller's.
func TestCallersContentType(t *testing.T) {
	t.Parallel()
	profile, err := rails.ParseProfile([]byte(`{"rail_type": "events", "kind": "message",
		"headers": ["content-type", "x-tenant"]}`))
	if err != nil {
		t.Fatal(err)
	}
	at, err := parseSubject("payments.{participant_id}.{rail_key}")
	if err != nil {
		t.Fatal(err)
	}
	rail := &Rail{}
	rail.config.Stream, rail.rules.subject = "PAYMENTS", at
	frame := string(rail.render(rails.Send{RailKey: "rh1", ParticipantID: "p1", InstructionID: "i", Payload: []byte("{}"),
		Headers: profile.Carried([]byte(`{"Content-Type": "text/html", "x-tenant": "a"}`))}, "reply"))
	if n := strings.Count(strings.ToLower(frame), "content-type:"); n != 1 || !strings.Contains(frame, "x-tenant: a\r\n") {
		t.Errorf("content-type is there %d times:\n%s", n, frame)
	}
}
