package outbox

import "testing"

// TestWhatIsOfARow tests which errors of the claim or expiry of one row set it aside at once, which ones if they come
// again and again, and after which ones no other row is tried.
func TestWhatIsOfARow(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]struct{ ofRow, mayBe, away bool }{
		"22003": {ofRow: true, mayBe: true}, "23514": {ofRow: true, mayBe: true}, "23505": {ofRow: true, mayBe: true},
		"P0001": {ofRow: true, mayBe: true}, "XX001": {ofRow: true, mayBe: true}, StatePutBack: {ofRow: true, mayBe: true},
		StateNoPayload: {ofRow: true, mayBe: true}, StateContended: {}, StateBusy: {},
		"40001": {}, "40P01": {}, "42501": {}, "42P01": {}, "53100": {}, "53200": {}, "55P03": {}, "57014": {},
		"21000": {mayBe: true}, "54000": {mayBe: true}, "58030": {mayBe: true}, "58P01": {mayBe: true},
		"XX000": {mayBe: true}, "XX002": {mayBe: true},
		"08006": {away: true}, "25006": {away: true}, "28P01": {away: true}, "53300": {away: true}, "57P01": {away: true},
		"57P03": {away: true}, "": {away: true},
	} {
		if got := IsOfRow(state); got != want.ofRow {
			t.Errorf("%s is the row's: %t", state, got)
		}
		if got := MayBeOfRow(state); got != want.mayBe {
			t.Errorf("%s may be the row's: %t", state, got)
		}
		if got := IsAway(state); got != want.away {
			t.Errorf("after %s the server is away: %t", state, got)
		}
	}
}
