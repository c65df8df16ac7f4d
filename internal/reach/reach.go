// Package reach says which addresses nothing of ours connects to, whatever name stands for
// them: they lead to this machine's own links, or to the credentials that a cloud keeps for it.
package reach

import (
	"net/netip"
	"slices"
)

// metadata services of clouds that are outside of the link-local ranges.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon, IPv6
	netip.MustParseAddr("fd20:ce::254"),    // Google, IPv6
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("168.63.129.16"),   // Azure's host agent
}

// translated has IPv4 addresses inside (RFC 6052): what matters is where they lead.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// embedding has IPv4 addresses inside in ways that no endpoint needs: local translation
// (RFC 8215), 6to4 (RFC 3056), and IPv4-compatible ones (RFC 4291, section 2.5.5.1).
var embedding = []netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("::/96")}

// Inside is the address that a connection to ip leads to: without a zone, and the IPv4
// address where ip only carries one.
func Inside(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if translated.Contains(ip) {
		bytes := ip.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return ip
}

// Never reports whether nothing connects to ip. Loopback addresses and those of private
// networks are not among them: who may reach those is each caller's own rule.
func Never(ip netip.Addr) bool {
	ip = Inside(ip)
	if ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || slices.Contains(metadata, ip) {
		return true
	}
	return !ip.IsLoopback() && slices.ContainsFunc(embedding, func(network netip.Prefix) bool { return network.Contains(ip) })
}
