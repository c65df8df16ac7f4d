package systems

import "testing"

func TestNodeVersion(t *testing.T) {
	for version, want := range map[string]bool{
		"v22.18.0": true, "v22.17.9": false, "v20.20.2": false, "v24.0.1": true, "": false, "next": false,
	} {
		if got := atLeast(version, 22, 18); got != want {
			t.Errorf("%q is at least 22.18: %t, want %t", version, got, want)
		}
	}
}
