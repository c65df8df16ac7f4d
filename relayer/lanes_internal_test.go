package relayer

import (
	"testing"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails"
)

// TestWentBackStays tests that a lane whose profile the database has forgotten remembers that, also
// if the suspension is forgotten next: a suspension that is gone is not an accepted one.
func TestWentBackStays(t *testing.T) {
	t.Parallel()
	one := &lane{profile: rails.Profile{Version: 2}, read: []byte("2")}
	for n, row := range []struct {
		version   int
		suspended bool
		wentBack  bool
	}{
		{2, false, false}, {2, true, false}, {2, false, false}, // a suspension that forgot nothing here
		{1, true, true}, {1, false, true}, {2, true, true},
	} {
		one.note(outbox.RailRow{ProfileVersion: row.version, Profile: []byte{byte('0' + row.version)},
			Suspended: row.suspended})
		if one.wentBack != row.wentBack {
			t.Errorf("row %d, %+v: went back %t", n, row, one.wentBack)
		}
		// What is in force is opened.
		one = &lane{profile: rails.Profile{Version: row.version}, read: []byte{byte('0' + row.version)},
			suspended: row.suspended, wentBack: one.wentBack}
	}
}
