package httpjson

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/streak"
)

// nameServer answers every IPv4 query with these addresses, and every other one with none.
type nameServer struct {
	mu        sync.Mutex
	addresses []string
}

func (n *nameServer) leadTo(addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = addresses
}

func (n *nameServer) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			length, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(n.reply(buffer[:length]), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// reply returns a DNS message (RFC 1035, section 4) with the question of the query.
func (n *nameServer) reply(query []byte) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	question := query[12 : end+5]
	n.mu.Lock()
	defer n.mu.Unlock()
	var answers [][4]byte
	if binary.BigEndian.Uint16(question[len(question)-4:]) == 1 { // A
		for _, address := range n.addresses {
			answers = append(answers, netip.MustParseAddr(address).As4())
		}
	}
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, byte(len(answers)), 0, 0, 0, 0}, question...)
	for _, answer := range answers {
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, answer[:]...)
	}
	return reply
}

// TestStrayName tests that a name server that leads to no bank for a while, as a sinkhole does,
// keeps payments from being sent and does not pause the rail. If it continues, or if the address
// itself is configured, an operator has to repair it.
func TestStrayName(t *testing.T) {
	const unsent, broken = payment.ResultNotSent, payment.ResultRefusedRail
	type step struct {
		after time.Duration
		leads []string // addresses of the name; nothing listens at the bank's
		want  payment.Result
	}
	sinkhole, metadata := []string{"0.0.0.0"}, []string{"169.254.169.254"}
	bank, both, none := []string{"127.0.0.1"}, []string{"0.0.0.0", "127.0.0.1"}, []string(nil)
	for name, c := range map[string]struct {
		host  string
		steps []step
	}{
		"once":                  {"bank.test", []step{{0, sinkhole, unsent}}},
		"many at once":          {"bank.test", []step{{0, sinkhole, unsent}, {0, sinkhole, unsent}, {0, sinkhole, unsent}, {streak.For - 1, sinkhole, unsent}}},
		"twice in an hour":      {"bank.test", []step{{0, sinkhole, unsent}, {time.Hour, sinkhole, unsent}}},
		"for as long as it may": {"bank.test", []step{{0, sinkhole, unsent}, {1, metadata, unsent}, {streak.For - 1, sinkhole, broken}, {0, metadata, broken}}},
		"no address meanwhile":  {"bank.test", []step{{0, sinkhole, unsent}, {1, none, unsent}, {streak.For, sinkhole, unsent}, {0, sinkhole, broken}}},
		"the bank meanwhile":    {"bank.test", []step{{0, sinkhole, unsent}, {0, sinkhole, unsent}, {streak.For, bank, unsent}, {0, sinkhole, unsent}, {0, sinkhole, unsent}}},
		"the bank as well":      {"bank.test", []step{{0, both, unsent}, {0, both, unsent}, {streak.For, both, unsent}, {0, both, unsent}}},
		"a literal address":     {"0.0.0.0", []step{{0, none, broken}}},
		"a literal one of IPv6": {"[::]", []step{{0, none, broken}}},
	} {
		t.Run(name, func(t *testing.T) {
			rail, err := Open(Config{
				BaseURL: "http://" + c.host + ":1", AllowPlaintext: true, AllowLoopback: true,
				Send: SendConfig{Path: "/", Body: map[string]any{"a": "rail_key"}, Response: SendResponseConfig{Reference: "id"}},
			}, rails.Profile{RailType: "bank"}.WithDefaults(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := rail.(*Rail)
			defer r.Close()
			var names nameServer
			clock := time.Now()
			r.transport = newTransport(&dialer{
				timeouts: r.timeouts, loopback: true, resolver: names.resolver(t), now: func() time.Time { return clock },
			}, 1)
			for n, step := range c.steps {
				clock = clock.Add(step.after)
				names.leadTo(step.leads...)
				got := r.Send(t.Context(), rails.Send{RailKey: "rh0", SendNo: 1, Payload: []byte(`{}`)})
				if got.Result != step.want || got.FirstByte || got.OwnStop {
					t.Errorf("step %d: %+v, want %s", n+1, got, step.want)
				}
			}
		})
	}
}
