package httpjson

import (
	"net/http"
	"testing"
	"time"
)

// TestAgeOfAnAnswer: an answer is older than its call by more than the time that the call took, in whole seconds.
func TestAgeOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		age   string
		took  time.Duration
		older bool
	}{
		{"0", 0, false}, {"1", time.Millisecond, false}, {"2", time.Millisecond, true}, {"1", time.Second, false},
		{"2", time.Second, true}, {"2", 1100 * time.Millisecond, false}, {"10", 10 * time.Second, false},
		{"11", 10 * time.Second, true}, {"3600, 0", time.Minute, true}, {"-5", 0, false}, {"?", 0, false},
	} {
		if got := older(http.Header{"Age": {c.age}}, c.took); got != c.older {
			t.Errorf("age %q after %s: older %t, want %t", c.age, c.took, got, c.older)
		}
	}
}

// TestTimeOfTheCall: the time that a call took begins with its first byte, not with the search for a connection.
func TestTimeOfTheCall(t *testing.T) {
	asked := &ticket{}
	if took := asked.took(); took != 0 {
		t.Errorf("%s before anything left", took)
	}
	conn := wireOver(&brokenConn{takes: 1000})
	_ = conn.attach(asked)
	before := time.Now()
	if _, err := conn.Write([]byte("POST")); err != nil {
		t.Fatal(err)
	}
	if took := asked.took(); took <= 0 || took > time.Since(before) {
		t.Errorf("%s, want at most %s", took, time.Since(before))
	}
}
