package payment

import (
	"encoding/json"
	"strings"
)

// The bounds of a caller's trace context.
const (
	traceParentBytes   = 55  // "00-" + 32 + "-" + 16 + "-" + 2
	traceStateBytesMax = 512 // the size that W3C Trace Context requires all systems to propagate
)

// TraceContext reads the caller's W3C trace context from the headers of an
// instruction: traceparent, and tracestate if there is one. It returns empty strings
// unless the text has exactly the form of a trace context, because callers write it
// and it is sent as HTTP headers.
func TraceContext(headers []byte) (parent, state string) {
	if len(headers) <= len("{}") {
		return "", ""
	}
	var h struct {
		Parent string `json:"traceparent"`
		State  string `json:"tracestate"`
	}
	if json.Unmarshal(headers, &h) != nil || !isTraceParent(h.Parent) {
		return "", ""
	}
	isUnprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if len(h.State) > traceStateBytesMax || strings.ContainsFunc(h.State, isUnprintable) {
		h.State = ""
	}
	return h.Parent, h.State
}

// isTraceParent reports whether a text is a traceparent of version 00, or of a later
// version in the same form.
func isTraceParent(text string) bool {
	if len(text) != traceParentBytes || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return false
	}
	version, trace, span, flags := text[:2], text[3:35], text[36:52], text[53:]
	for _, part := range []string{version, trace, span, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return version != "ff" && strings.Trim(trace, "0") != "" && strings.Trim(span, "0") != ""
}
