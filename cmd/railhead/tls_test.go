package main

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

// readyAs is a service of a given readiness.
type readyAs struct {
	made
	err error
}

func (r readyAs) Ready() error { return r.err }

// TestReadyWithAFaultOfTLS: a process whose certificate could not be read again serves by the one before, and says so;
// taken out of its balancer it would serve no call.
func TestReadyWithAFaultOfTLS(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		err    error
		status int
		says   string
	}{
		{nil, 200, "ready\n"},
		{stillReady(nil), 200, "ready\n"},
		{stillReady(errors.New("api.pem is empty")), 200, "ready\napi: api.pem is empty\nit is ready all the same\n"},
		{errors.New("starting"), 503, "api: starting\n"},
	} {
		answer := httptest.NewRecorder()
		writeReadiness(answer, []component{{kind: "api", service: readyAs{err: each.err}}})
		if got := answer.Body.String(); answer.Code != each.status || !strings.HasPrefix(got, each.says) {
			t.Errorf("%v: %d %q", each.err, answer.Code, got)
		}
	}
}
