package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// TestWhyNotClaimed holds every sentence to the lanes that it is said of.
func TestWhyNotClaimed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 0, 5, 0, time.UTC)
	free := reader.Lane{Slots: 64, Calls: 3, Breaker: "CLOSED"}
	busy := reader.Lane{Slots: 64, Calls: 64, Breaker: "CLOSED"}
	open := reader.Lane{Slots: 64, Breaker: "OPEN", BreakerOpenUntil: at}
	later := reader.Lane{Slots: 64, Breaker: "OPEN", BreakerOpenUntil: at.Add(time.Minute)}
	suspended := reader.Lane{Slots: 64, Breaker: "OPEN", Suspended: "lanes are suspended since then"}
	behind := reader.Lane{Slots: 64, Calls: 3, Breaker: "CLOSED", ProfileVersion: 3, ProfileInForce: 4}
	stopped := reader.Lane{Slots: 64, Breaker: "CLOSED", StoppedUntil: at}
	for _, test := range []struct {
		lanes []reader.Lane
		want  string
	}{
		{nil, "no running relayer serves rail wire"},
		{[]reader.Lane{free}, ""},
		{[]reader.Lane{open, free, busy}, ""},
		{[]reader.Lane{busy}, "all 64 slots of rail wire are busy on its only relayer"},
		{[]reader.Lane{busy, busy}, "all 128 slots of rail wire are busy on 2 of 2 relayers"},
		{[]reader.Lane{later, open}, "breaker of rail wire is open on 2 of 2 relayers until 09:00:05"},
		{[]reader.Lane{open, busy}, "breaker of rail wire is open on 1 of 2 relayers until 09:00:05; all 64 slots of rail wire are busy on 1 of 2 relayers"},
		{[]reader.Lane{suspended}, "rail wire is not claimed on its only relayer: lanes are suspended since then"},
		{[]reader.Lane{behind}, "rail wire is not claimed on its only relayer, for want of version 4 of its profile, which is in force: if that lasts, the relayer's log says why"},
		{[]reader.Lane{behind, free}, ""},
		{[]reader.Lane{stopped}, "rows of rail wire could not be claimed on its only relayer, which tries again at 09:00:05: its log says why"},
	} {
		same(t, "why", strings.Join(reader.WhyNotClaimed("wire", test.lanes), "; "), test.want)
	}
}

// TestLanes: what running relayers say is what is shown; one that stopped, or fell
// silent, serves nothing.
func TestLanes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reader := openReader(t, d.Cell)
	id := d.enqueue()
	why := func() string {
		t.Helper()
		line, err := reader.Timeline(t.Context(), id)
		d.must(err)
		status, err := reader.Status(t.Context())
		d.must(err)
		for _, rail := range status.Rails {
			if rail.RailType == "bank" {
				same(t, "the status says the same", strings.Join(rail.NotClaimed, "; "), strings.Join(line.NotClaimed, "; "))
				same(t, "gauge", d.relayersOf("bank"), len(rail.Lanes))
			}
		}
		return strings.Join(line.NotClaimed, "; ")
	}
	beat := func(name, status string, lanes ...outbox.LaneReport) {
		t.Helper()
		_, err := d.exec.Heartbeat(t.Context(), outbox.Heartbeat{Name: name, Kind: "relayer", Status: status, Lanes: lanes})
		d.must(err)
	}
	version := d.ProfileInForce("bank")
	bank := func(calls int, suspended string) outbox.LaneReport {
		return outbox.LaneReport{RailType: "bank", ProfileVersion: version, Slots: 4, Calls: calls, Breaker: "CLOSED",
			Suspended: suspended}
	}
	const none = "no running relayer serves rail bank"
	same(t, "no relayer", why(), none)
	beat("a", "running", outbox.LaneReport{RailType: "other", Slots: 4, Breaker: "CLOSED"})
	same(t, "one of another rail", why(), none)
	beat("a", "running", bank(4, ""))
	same(t, "a busy one", why(), "all 4 slots of rail bank are busy on its only relayer")
	beat("b", "suspended", bank(0, "lanes are suspended since then"))
	if got := why(); !strings.HasPrefix(got,
		"rail bank is not claimed on 1 of 2 relayers: lanes are suspended since then") {
		t.Errorf("got %q", got)
	}
	beat("b", "running", bank(0, ""))
	same(t, "a free one next to it", why(), "")
	d.apply(keepsKeys)
	line, err := reader.Timeline(t.Context(), id)
	d.must(err)
	same(t, "both behind", strings.Join(line.NotClaimed, "; "), fmt.Sprintf(
		"rail bank is not claimed on 2 of 2 relayers, for want of version %d of its profile, which is in force: if that "+
			"lasts, the relayer's log says why", version+1))
	same(t, "gauge while both are behind", d.relayersOf("bank"), 0)
	version++
	beat("a", "running", bank(4, ""))
	same(t, "gauge while one is behind", d.relayersOf("bank"), 1)
	beat("b", "running", bank(0, ""))
	same(t, "in force again", why(), "")
	beat("b", "stopped")
	d.do(`UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - interval '1 hour' WHERE name = 'a'`)
	same(t, "stopped, and silent", why(), none)
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() + interval '1 hour'`)
	line, err = reader.Timeline(t.Context(), id)
	d.must(err)
	same(t, "not due", len(line.NotClaimed), 0)
}

func (d *desk) relayersOf(rail string) int {
	d.t.Helper()
	gauges, err := openReader(d.t, d.Cell).Gauges(d.t.Context(), reader.GaugeQuery{})
	d.must(err)
	for _, each := range gauges.Rails {
		if each.RailType == rail {
			return each.Relayers
		}
	}
	return -1
}
