package relayer_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/service"
)

// TestMissingGrantIsSaid tests a relayer whose login lacks a grant that a claim needs, as before the roles apply of its
// build: it is not ready, it and its log name the command, and it pays once the grant is there.
func TestMissingGrantIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	var said logged
	w.log = slog.New(slog.NewJSONHandler(&said, nil))
	w.do(`REVOKE SELECT ON railhead.payment_outbox_pending FROM railhead_executor`)
	id := w.enqueue("the one")
	r := w.run(oneLoop())
	w.seen.await(t, func() error {
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "rail bank: "+service.DeniedSays) {
			return errors.Join(errors.New("it does not say that a grant is missing"), err)
		}
		return nil
	})
	for _, want := range []string{"lane stopped: no row could be looked for", `"for":"`, service.DeniedSays} {
		if said.count(want) == 0 {
			t.Errorf("the log does not say %q", want)
		}
	}
	w.do(`GRANT SELECT ON railhead.payment_outbox_pending TO railhead_executor`)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	w.seen.await(t, r.Ready)
}
