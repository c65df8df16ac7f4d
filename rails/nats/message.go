package nats

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/rails"
)

// schemaVersion is the version of the form of a message: which headers it has, and what its data is.
const schemaVersion = "1"

// render returns the frame of a message: HPUB SUBJECT REPLY HEADERS TOTAL, the headers by name, and
// the payload.
func (r *Rail) render(s rails.Send, reply string) []byte {
	headers := map[string]string{
		"Nats-Expected-Stream":    r.config.Stream,
		"Nats-Msg-Id":             s.RailKey,
		"Content-Type":            "application/json",
		"Railhead-Instruction-Id": s.InstructionID,
		"Railhead-Participant-Id": s.ParticipantID,
		"Railhead-Schema-Version": schemaVersion,
	}
	if r.rules.subject.hasKey() {
		// The subject is this payment's alone: a second message is refused, however late it comes.
		headers["Nats-Expected-Last-Subject-Sequence"] = "0"
	}
	if s.TraceParent != "" {
		headers["traceparent"] = s.TraceParent
		if s.TraceState != "" {
			headers["tracestate"] = s.TraceState
		}
	}
	maps.Copy(headers, s.Headers)
	var head strings.Builder
	head.WriteString("NATS/1.0\r\n")
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if !strings.ContainsAny(headers[name], "\r\n") {
			fmt.Fprintf(&head, "%s: %s\r\n", name, headers[name])
		}
	}
	head.WriteString("\r\n")
	var frame bytes.Buffer
	fmt.Fprintf(&frame, "HPUB %s %s %d %d\r\n", r.rules.subject.of(s.ParticipantID, s.RailKey), reply, head.Len(),
		head.Len()+len(s.Payload))
	frame.WriteString(head.String())
	frame.Write(s.Payload)
	frame.WriteString("\r\n")
	return frame.Bytes()
}

// question returns the frame of a request to the API of JetStream.
func question(subject, reply string, body []byte) []byte {
	return fmt.Appendf(nil, "PUB %s %s %d\r\n%s\r\n", subject, reply, len(body), body)
}

// copyN reads exactly n bytes.
func copyN(into *bytes.Buffer, from io.Reader, n int) (int64, error) {
	return io.CopyN(into, from, int64(n))
}
