package payment

import (
	"encoding/json"
	"strings"
)

// Bounds of what a caller's trace context may be.
const (
	traceParentBytes   = 55  // "00-" + 32 + "-" + 16 + "-" + 2
	traceStateBytesMax = 512 // what W3C Trace Context asks everybody to carry
)

// TraceContext reads the caller's W3C trace context from the headers of an
// instruction: traceparent, and tracestate if there is one. A caller that may
// enqueue writes them, so that what is no trace context to the letter counts as
// none: both come back empty. What comes back can be sent as HTTP headers.
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
	if len(h.State) > traceStateBytesMax || strings.ContainsFunc(h.State, func(r rune) bool { return r < ' ' || r > '~' }) {
		h.State = ""
	}
	return h.Parent, h.State
}

// isTraceParent knows version 00, and of later versions what has its form.
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
