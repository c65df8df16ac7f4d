package lineage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// TestPutBackBehindTheAcceptance: a snapshot that was made while a suspension was open, and is put back after it was
// accepted, opens it anew: what was compared before is not all.
func TestPutBackBehindTheAcceptance(t *testing.T) {
	t.Parallel()
	for _, cause := range []outbox.SuspensionCause{outbox.CauseLogWentBack, outbox.CauseRowsMissing} {
		l := newLedger()
		g := guard(t, l, "")
		look(t, g)
		g.Beaten(50)
		l.recall.BeatsMissing = true
		look(t, g)
		l.recall.BeatsMissing = false
		g.Beaten(41)
		l.server.Now, l.server.LogPosition = noon.Add(time.Minute), 110
		look(t, g)
		snapshot := l.server
		snapshot.Suspensions = slices.Clone(l.server.Suspensions)
		l.server.Now = noon.Add(10 * time.Minute)
		l.accept()
		for n := range int64(10) {
			look(t, g)
			l.server.Now, l.server.LogPosition = l.server.Now.Add(time.Minute), l.server.LogPosition+100
			g.Beaten(42 + n)
		}
		look(t, g)
		snapshot.Now = l.server.Now.Add(time.Second)
		if l.server = snapshot; cause == outbox.CauseRowsMissing {
			l.server.LogPosition = 5000
		}
		l.recall.BeatsMissing = true
		for range 3 {
			look(t, g)
			l.server.Now = l.server.Now.Add(time.Second)
		}
		if at := l.server.Suspensions[0].OpenedAt; !at.Equal(snapshot.Now) {
			t.Errorf("%s: it counts as opened at %s", cause, at)
		}
	}
}
