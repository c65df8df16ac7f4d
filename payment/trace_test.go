package payment

import (
	"fmt"
	"strings"
	"testing"
)

const (
	goodParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	goodState  = "vendor=value,other=1"
)

func TestTraceContext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ headers, parent, state string }{
		"both":                  {fmt.Sprintf(`{"traceparent": %q, "tracestate": %q}`, goodParent, goodState), goodParent, goodState},
		"a later version":       {`{"traceparent": "42` + goodParent[2:] + `"}`, "42" + goodParent[2:], ""},
		"none":                  {`{}`, "", ""},
		"nothing at all":        {"", "", ""},
		"no JSON":               {`{"traceparent"`, "", ""},
		"a number":              {`{"traceparent": 7}`, "", ""},
		"a state alone":         {`{"tracestate": "a=b"}`, "", ""},
		"too short":             {`{"traceparent": "00-a-b-01"}`, "", ""},
		"too long":              {`{"traceparent": "` + goodParent + `-more"}`, "", ""},
		"upper case":            {`{"traceparent": "` + strings.ToUpper(goodParent) + `"}`, "", ""},
		"version ff":            {`{"traceparent": "ff` + goodParent[2:] + `"}`, "", ""},
		"no trace":              {`{"traceparent": "00-` + strings.Repeat("0", 32) + `-b7ad6b7169203331-01"}`, "", ""},
		"no span":               {`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}`, "", ""},
		"a line end inside":     {`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333\r\n01"}`, "", ""},
		"a header in the state": {fmt.Sprintf(`{"traceparent": %q, "tracestate": "a=b\r\nX-Evil: 1"}`, goodParent), goodParent, ""},
		"a long state":          {fmt.Sprintf(`{"traceparent": %q, "tracestate": %q}`, goodParent, strings.Repeat("a", 513)), goodParent, ""},
	} {
		parent, state := TraceContext([]byte(c.headers))
		if parent != c.parent || state != c.state {
			t.Errorf("%s: %q and %q, want %q and %q", name, parent, state, c.parent, c.state)
		}
	}
}
