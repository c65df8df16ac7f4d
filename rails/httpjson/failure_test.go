package httpjson

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/rails"
)

// TestPlainFailures tests that no text of package net/http is stored that names its functions or an error that is none.
func TestPlainFailures(t *testing.T) {
	for text, want := range map[string]string{
		"readLoopPeekFailLocked: %!w(<nil>)":               "the bank had sent something on the connection before the request, so that it was closed",
		"x: readLoopPeekFailLocked: %!w(<nil>): y":         "x: the bank had sent something on the connection before the request, so that it was closed: y",
		"readLoopPeekFailLocked: read tcp: reset by peer":  "the connection failed before the request: read tcp: reset by peer",
		"net/http: HTTP/1.x transport connection broken: ": "net/http: HTTP/1.x transport connection broken: ",
	} {
		if got := plainly(errors.New(text)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		for _, asked := range []bool{false, true} {
			tick := &ticket{}
			if asked {
				tick.state = ticketLeft
			}
			got := (&Rail{}).failed(t.Context(), context.Background(), tick, fmt.Errorf("%s", text))
			if !strings.HasSuffix(got.Message, rails.Sanitize(want)) {
				t.Errorf("%q is stored as %q", text, got.Message)
			}
		}
	}
}
