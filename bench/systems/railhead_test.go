package systems

import "testing"

func TestScatteredNamesKeepTheirNumber(t *testing.T) {
	seen := make(map[string]bool)
	for n := range 10_000 {
		name := scattered(n)
		if got, ok := numberOf(name); !ok || got != n {
			t.Fatalf("%s is number %d, %t; want %d", name, got, ok, n)
		}
		seen[name[:2]] = true
	}
	if len(seen) != 256 {
		t.Errorf("10,000 names begin in %d ways, want all 256: they are not scattered", len(seen))
	}
	if n, ok := numberOf("hanging-x"); ok {
		t.Errorf("a name without a number has %d", n)
	}
}
