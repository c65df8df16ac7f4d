package nats

import (
	"strings"
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

// TestRemovedUnread tests that each gap between what was acknowledged and the first message that a stream still has is
// said once, and that none is said where nothing can be missing, or where a filter leaves that open.
func TestRemovedUnread(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	r := Replies{servers: servers{config: Config{Replies: &RepliesConfig{Stream: "REPLIES", Consumer: "railhead"}}}}
	look := func(created time.Time, first, floor uint64, filter string) string {
		stream := streamInfo{Config: streamConfig{Subjects: []string{"replies.>"}}, Created: created,
			State: streamState{FirstSeq: first}}
		var consumer consumerInfo
		consumer.Floor.Sequence, consumer.Config.Filter = floor, filter
		if why := r.removed(stream, consumer); why != nil {
			return why.Error()
		}
		return ""
	}
	for _, c := range []struct {
		what         string
		created      time.Time
		first, floor uint64
		filter, want string
	}{
		{"an empty stream", made, 0, 0, "", ""},
		{"nothing is removed", made, 1, 0, "", ""},
		{"all that is removed was acknowledged", made, 6, 5, "", ""},
		{"more was acknowledged than is removed", made, 3, 5, "", ""},
		{"two are gone", made, 8, 5, "", "messages 6 to 7 of stream REPLIES were removed before consumer railhead"},
		{"the same two", made, 8, 5, "", ""},
		{"one more", made, 9, 5, "", "messages 8 to 8 of stream"},
		{"others of a filter", made, 20, 5, "replies.bank", ""},
		{"a filter of all", made, 11, 5, "replies.>", "messages 9 to 10 of stream"},
		{"what comes is acknowledged", made, 11, 12, "", ""},
		{"another stream", made.Add(time.Hour), 1, 0, "", "stream REPLIES was made anew at 2026-11-27T04:00:00Z"},
		{"it is said once", made.Add(time.Hour), 1, 0, "", ""},
		{"one is gone of it", made.Add(time.Hour), 2, 0, "", "messages 1 to 1 of stream"},
	} {
		if got := look(c.created, c.first, c.floor, c.filter); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: said %q, want %q", c.what, got, c.want)
		}
	}
}
