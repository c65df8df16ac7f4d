// Package reach defines the addresses that no component connects to, whatever name resolves to
// them: they lead to this machine's own links, or to the credentials that a cloud serves to it.
package reach

import (
	"net/netip"
	"slices"
)

// metadata are the metadata services of clouds outside of the link-local ranges.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon, IPv6
	netip.MustParseAddr("fd20:ce::254"),    // Google, IPv6
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("168.63.129.16"),   // Azure's host agent
}

// translated contains IPv4 addresses embedded in IPv6 ones (RFC 6052): the embedded address counts.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// embedding contains prefixes that embed IPv4 addresses in ways that no endpoint needs: local
// translation (RFC 8215), 6to4 (RFC 3056), and IPv4-compatible addresses (RFC 4291, section
// 2.5.5.1).
var embedding = []netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("::/96")}

// Inside returns the address that a connection to ip leads to: without a zone, and the IPv4 address
// that ip may embed.
func Inside(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if translated.Contains(ip) {
		bytes := ip.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return ip
}

// Never reports whether no component may connect to ip. Loopback and private addresses are not
// among them: each caller has its own rule for those.
func Never(ip netip.Addr) bool {
	ip = Inside(ip)
	if ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() ||
		ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || slices.Contains(metadata, ip) {
		return true
	}
	return !ip.IsLoopback() && slices.ContainsFunc(embedding,
		func(network netip.Prefix) bool { return network.Contains(ip) })
}
