package reach

import (
	"net/netip"
	"testing"
)

func TestNever(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"93.184.216.34": false, "10.0.0.1": false, "127.0.0.1": false, "::1": false, "fd00::1": false,
		"2606:2800:220:1::1": false, "64:ff9b::5db8:d822": false,
		"::ffff:10.0.0.1": false,
		"0.0.0.0":         true, "::": true, "224.0.0.1": true, "255.255.255.255": true, "169.254.169.254": true,
		"fe80::1%eth0": true, "ff02::1": true,
		"::ffff:169.254.169.254": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b:1::a9fe:a9fe": true, "2002:a9fe:a9fe::": true,
		"::169.254.169.254": true,
		"fd00:ec2::254":     true, "100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
	} {
		if got := Never(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
