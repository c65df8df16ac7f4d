package outbox

import "testing"

// TestWhatIsOfARow tests which errors of the claim or expiry of one row set it aside, and after which ones no other
// row is tried.
func TestWhatIsOfARow(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]struct{ ofRow, away bool }{
		"22003": {ofRow: true}, "23514": {ofRow: true}, "23505": {ofRow: true}, "P0001": {ofRow: true}, "XX001": {ofRow: true},
		StatePutBack: {ofRow: true}, StateNoPayload: {ofRow: true}, StateContended: {}, StateBusy: {},
		"40001": {}, "40P01": {}, "42501": {}, "42P01": {}, "53100": {}, "53200": {}, "54000": {}, "55P03": {}, "57014": {},
		"58030": {}, "XX000": {}, "XX002": {},
		"08006": {away: true}, "25006": {away: true}, "28P01": {away: true}, "53300": {away: true}, "57P01": {away: true},
		"57P03": {away: true}, "": {away: true},
	} {
		if got := IsOfRow(state); got != want.ofRow {
			t.Errorf("%s is the row's: %t", state, got)
		}
		if got := IsAway(state); got != want.away {
			t.Errorf("after %s the server is away: %t", state, got)
		}
	}
}
