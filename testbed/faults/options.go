package faults

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// Options holds everything that a run is made from. The options follow from fault and
// seed alone, and are printed with every run.
type Options struct {
	Fault string `json:"fault"`
	Seed  uint64 `json:"seed"`

	// The traffic comes in waves of Wave instructions, of Participants participants.
	Wave         int           `json:"wave"`
	Participants int           `json:"participants"`
	Callers      int           `json:"callers"`
	Pace         time.Duration `json:"pace"` // between two calls of one caller
	// ExpiresIn is how long after it was planned an instruction expires; 0: never.
	ExpiresIn time.Duration `json:"expires_in,omitempty"`
	// Rounds is how often the fault is injected.
	Rounds int `json:"rounds"`
	// Rails are the rails that the traffic uses.
	Rails []string `json:"rails"`

	Relayers     int  `json:"relayers"`
	Reapers      int  `json:"reapers"`
	ThroughProxy bool `json:"through_proxy"` // the relayers reach the database by a faulty network
	// ThroughAPI makes callers enqueue every second plan over HTTP, beginning with the
	// first.
	ThroughAPI bool `json:"through_api,omitempty"`

	Concurrency int `json:"concurrency"` // calls in flight for each rail and relayer

	// These belong to the profiles of Keyed and Asked, and to their bank.
	KeyWindow time.Duration `json:"key_window"`
	// BankWindow is how long their bank remembers a key, where that is not KeyWindow.
	BankWindow time.Duration `json:"bank_window,omitempty"`
	MaxSends   int           `json:"max_sends"`
	RetryBase  time.Duration `json:"retry_base"`
	// IDAfterRefusal belongs to these profiles and the bank too. With SAME, an answer
	// decides only about the send that it answers.
	IDAfterRefusal payment.IDAfterRefusal `json:"id_after_refusal"`
	// NotFoundUntil is how long after the first send "no such payment" counts.
	NotFoundUntil time.Duration `json:"not_found_until"`
	// Slower multiplies the times that the rails wait in a call; 0 means 1.
	Slower int `json:"slower,omitempty"`
	// Inquiries is how often, at most, the rails that can be asked are asked.
	Inquiries int `json:"inquiries"`
	// ByReference makes both banks accept payments provisionally and settle them after
	// SettleAfter. The rails that can be asked are then asked by the bank's own reference
	// alone.
	ByReference bool          `json:"by_reference,omitempty"`
	SettleAfter time.Duration `json:"settle_after,omitempty"`
	// OnReplay is what their bank answers to a key that it has seen.
	OnReplay railsim.Replay `json:"on_replay"`

	Poll              time.Duration `json:"poll"`
	ClaimTimeout      time.Duration `json:"claim_timeout"`
	StartWithin       time.Duration `json:"start_within"`
	RecordWithin      time.Duration `json:"record_within"`
	Drain             time.Duration `json:"drain"`
	HeartbeatEvery    time.Duration `json:"heartbeat_every"`
	HeartbeatStale    time.Duration `json:"heartbeat_stale"`
	NotifierTestEvery time.Duration `json:"notifier_test_every"`
	ReapEvery         time.Duration `json:"reap_every"`
	ReapGrace         time.Duration `json:"reap_grace"`
	StoreTimeout      time.Duration `json:"store_timeout"`

	// HealWithin bounds the second phase.
	HealWithin time.Duration `json:"heal_within"`
}

// Standard returns the options of a run before its fault adjusts them. Its times are
// scaled down: a minute of a real installation is about a second here. The order between
// them is that of a real one, or the relayer would refuse to start.
func Standard(fault string, seed uint64) Options {
	return Options{
		Fault: fault, Seed: seed,
		Wave: 16, Participants: 3, Callers: 4, Pace: 20 * time.Millisecond, Rounds: 3,
		Rails: []string{Keyed, Asked, Bare, BareAsked}, Relayers: 1, Reapers: 1, Concurrency: 4,
		KeyWindow: time.Hour, MaxSends: 12, RetryBase: 150 * time.Millisecond, IDAfterRefusal: payment.IDNew,
		OnReplay: drawReplay(fault, seed, railsim.Replays()), NotFoundUntil: time.Hour, Inquiries: 60,
		Poll: 200 * time.Millisecond, ClaimTimeout: 4 * time.Second, StartWithin: 500 * time.Millisecond,
		RecordWithin: 300 * time.Millisecond, Drain: 500 * time.Millisecond,
		HeartbeatEvery: 200 * time.Millisecond, HeartbeatStale: time.Second, NotifierTestEvery: 2 * time.Second,
		ReapEvery: 250 * time.Millisecond, ReapGrace: 500 * time.Millisecond, StoreTimeout: 2 * time.Second,
		HealWithin: 45 * time.Second,
	}
}

// sendBudget is the sum of the timeouts in the rails file, unless Slower multiplies them.
const sendBudget = 2100 * time.Millisecond

// patience returns the age below which no reaper may take a claim from its worker.
func (o Options) patience() time.Duration { return o.StartWithin + o.Span(sendBudget.Milliseconds()) }

// Span returns ms milliseconds of a call, multiplied by Slower, as the rails file has
// them.
func (o Options) Span(ms int64) time.Duration {
	return time.Duration(max(o.Slower, 1)) * time.Duration(ms) * time.Millisecond
}

// drawReplay draws one of the answers. As many seeds in a row as there are answers draw
// each of them once.
func drawReplay(fault string, seed uint64, answers []railsim.Replay) railsim.Replay {
	n := uint64(len(answers))
	return answers[(fold(fault)%n+seed%n)%n]
}

// draws returns the source of all other random choices of a run.
func (o Options) draws() *rand.Rand { return rand.New(rand.NewPCG(o.Seed, fold(o.Fault))) }

// fold returns the 64-bit FNV-1a hash of a name.
func fold(name string) uint64 {
	var n uint64 = 14695981039346656037
	for _, b := range []byte(name) {
		n = (n ^ uint64(b)) * 1099511628211
	}
	return n
}

// String returns the options as one line.
func (o Options) String() string {
	type plain Options // without this method
	return fmt.Sprintf("%+v", plain(o))
}

// environment returns the settings that the product's processes read.
func (o Options) environment() []string {
	return []string{
		"RAILHEAD_LOG_FORMAT=json", "RAILHEAD_POLL=" + o.Poll.String(),
		"RAILHEAD_HEARTBEAT_EVERY=" + o.HeartbeatEvery.String(),
		"RAILHEAD_NOTIFIER_TEST_EVERY=" + o.NotifierTestEvery.String(),
		"RAILHEAD_REAP_EVERY=" + o.ReapEvery.String(), "RAILHEAD_REAP_GRACE=" + o.ReapGrace.String(),
		"RAILHEAD_STORE_TIMEOUT=" + o.StoreTimeout.String(), "RAILHEAD_REFRESH_EVERY=1s",
	}
}

// timeBudget returns the time budget of the cell.
func (o Options) timeBudget() outbox.TimeBudget {
	return outbox.TimeBudget{
		ClaimTimeout: o.ClaimTimeout, StartWithin: o.StartWithin, RecordWithin: o.RecordWithin, Drain: o.Drain,
		HeartbeatStale: o.HeartbeatStale,
	}
}
