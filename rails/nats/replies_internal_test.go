package nats

import (
	"testing"
	"time"
)

// TestRefusedLong tests that a message which was refused for a day is given up, and not another one that has its
// number in a stream that was created anew.
func TestRefusedLong(t *testing.T) {
	t.Parallel()
	r := Replies{
		servers: servers{config: Config{Replies: &RepliesConfig{Stream: "REPLIES", Consumer: "railhead"}}},
		refused: make(map[place]time.Time),
	}
	at := func(reply string) place {
		t.Helper()
		_, at, err := r.delivered(reply)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := at("$JS.ACK.REPLIES.railhead.1.5.9.1600000000000000001.0")
	r.remember(first, true)
	if r.refusedLong(first) {
		t.Error("one that was just refused is given up")
	}
	r.refused[first] = time.Now().Add(-refusedFor)
	for reply, want := range map[string]bool{
		"$JS.ACK.REPLIES.railhead.30.5.77.1600000000000000001.3":               true,
		"$JS.ACK.hub.ACCOUNT.REPLIES.railhead.30.5.78.1600000000000000001.3.x": true,
		"$JS.ACK.REPLIES.railhead.1.6.10.1600000000000000002.0":                false,
		"$JS.ACK.REPLIES.railhead.1.5.5.1700000000000000001.0":                 false, // of another stream
	} {
		if got := r.refusedLong(at(reply)); got != want {
			t.Errorf("%s: given up: %t, want %t", reply, got, want)
		}
	}
	if _, _, err := r.delivered("$JS.ACK.REPLIES.railhead.1.5.5.noon.0"); err == nil {
		t.Error("a message without its time is read")
	}
}
