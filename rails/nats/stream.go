package nats

import (
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// streamInfo is what a server reports about a stream, as far as it decides about payments.
type streamInfo struct {
	Config  streamConfig `json:"config"`
	Created time.Time    `json:"created"`
	State   streamState  `json:"state"`
	Cluster *clusterInfo `json:"cluster"` // nil: a server without a cluster
	At      time.Time    `json:"ts"`      // by the server's clock; zero: a server before 2.10

	asked, answered time.Time     // by the clock of this machine
	skew            time.Duration // by which clocks may differ
	keeps           time.Duration // nats.keeps_for; 0: without end
	shared          bool          // what it removes may be messages of others
}

// clusterInfo is which servers keep a stream, as its leader sees it.
type clusterInfo struct {
	Leader   string     `json:"leader"`
	Replicas []peerInfo `json:"replicas"` // without the leader
}

type peerInfo struct {
	Offline bool          `json:"offline"`
	Active  time.Duration `json:"active"` // since it was last heard of; 0: never
}

type streamConfig struct {
	Name              string        `json:"name"`
	Subjects          []string      `json:"subjects"`
	Retention         string        `json:"retention"`
	Storage           string        `json:"storage"`
	Discard           string        `json:"discard"`
	DiscardPerSubject bool          `json:"discard_new_per_subject"`
	Replicas          int           `json:"num_replicas"`
	MaxMsgs           int64         `json:"max_msgs"`
	MaxBytes          int64         `json:"max_bytes"`
	MaxAge            time.Duration `json:"max_age"`
	MaxPerSubject     int64         `json:"max_msgs_per_subject"`
	MaxMsgSize        int64         `json:"max_msg_size"`
	Window            time.Duration `json:"duplicate_window"`
	NoAck             bool          `json:"no_ack"`
	Sealed            bool          `json:"sealed"`
	Rollup            bool          `json:"allow_rollup_hdrs"`
	Counter           bool          `json:"allow_msg_counter"`
	TTL               bool          `json:"allow_msg_ttl"`
	PersistMode       string        `json:"persist_mode"`
	Mirror            *struct{}     `json:"mirror"`
	Sources           []struct{}    `json:"sources"`
	Transform         *struct{}     `json:"subject_transform"`
}

type streamState struct {
	Messages uint64    `json:"messages"`
	FirstSeq uint64    `json:"first_seq"`
	LastSeq  uint64    `json:"last_seq"`
	FirstAt  time.Time `json:"first_ts"`
	LastAt   time.Time `json:"last_ts"`
	Deleted  int       `json:"num_deleted"`
	Lost     *struct{} `json:"lost"`
	// Subjects are those that were asked about and have messages, with their number.
	Subjects map[string]uint64 `json:"subjects"`
}

// rules are what a stream has to be for a profile.
type rules struct {
	config  Config
	profile rails.Profile
	subject subject
}

// faults returns what in the settings of a stream loses payments, makes them twice, or hides them,
// each with what to change. The version is that of the server that is connected to.
func (r rules) faults(c streamConfig, version string) []string {
	var all []string
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	refuse(c.Name != r.config.Stream, "it is named %q", c.Name)
	refuse(c.Storage != "file", "storage is %s and forgets everything at a restart: it must be file", c.Storage)
	refuse(c.PersistMode != "" && c.PersistMode != "default",
		"persist_mode is %s and acknowledges before a message is written: it must be default", c.PersistMode)
	refuse(c.Replicas < r.config.Replicas, "num_replicas is %d, must be at least nats.replicas %d", c.Replicas,
		r.config.Replicas)
	refuse(c.Retention != "limits", "retention is %s and removes messages when they are consumed, which then look as if "+
		"they were never sent: it must be limits", c.Retention)
	refuse(c.NoAck, "no_ack is set, so no message is acknowledged: it must be false")
	refuse(c.Sealed, "it is sealed and takes no messages")
	refuse(c.Mirror != nil, "it is a mirror and takes no messages of its own")
	refuse(len(c.Sources) > 0, "it has sources, whose messages may have the keys of ours: it must have none")
	refuse(c.Transform != nil, "subject_transform changes the subjects of our messages: it must have none")
	refuse(c.Rollup, "allow_rollup_hdrs lets one message erase all others: it must be false")
	refuse(c.Counter, "allow_msg_counter replaces the content of messages: it must be false")
	bounded := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxPerSubject > 0
	refuse(bounded && c.Discard != "new",
		"discard is %s with max_msgs, max_bytes or max_msgs_per_subject: messages would be removed before they are "+
			"consumed; discard must be new", c.Discard)
	refuse(c.MaxBytes > 0 && !boundsBytes(version), "max_bytes is %d, and nats-server %s removes the oldest messages "+
		"instead of refusing those that do not fit: set it to -1, or install 2.10.7 or later", c.MaxBytes, version)
	refuse(c.MaxPerSubject > 0 && c.Discard == "new" && !c.DiscardPerSubject,
		"max_msgs_per_subject is %d without discard_new_per_subject, so that older messages are removed: set it, "+
			"or max_msgs_per_subject to -1", c.MaxPerSubject)
	refuse(c.MaxPerSubject > 0 && !r.subject.hasKey(),
		"max_msgs_per_subject is %d, and all messages of a participant have one subject: it must be -1", c.MaxPerSubject)
	kept := time.Duration(r.config.KeepsFor)
	refuse(c.MaxAge > 0 && kept == 0,
		"max_age is %s: messages are removed then, consumed or not; set it to 0, or state with nats.keeps_for that this is "+
			"long enough", c.MaxAge)
	refuse(c.MaxAge > 0 && c.MaxAge < kept, "max_age is %s, shorter than nats.keeps_for %s", c.MaxAge, r.config.KeepsFor)
	window := time.Duration(r.profile.KeyWindow)
	refuse(r.profile.ResendOnUnknown == payment.ResendSameKey && c.Window < window,
		"duplicate_window is %s, shorter than the profile's key_window %s: set it to that", c.Window, r.profile.KeyWindow)
	refuse(c.MaxMsgSize > 0 && c.MaxMsgSize < maxMessage,
		"max_msg_size is %d, and a message may have %d bytes: set it to -1", c.MaxMsgSize, maxMessage)
	sample := r.subject.of("p", "k")
	refuse(!slices.ContainsFunc(c.Subjects, func(filter string) bool { return matches(filter, sample) }),
		"its subjects %v do not cover %s", c.Subjects, r.config.Subject)
	return all
}

// remembers returns why a stream may not remember a message that was published at a time, or "". It
// was created after it, or has removed messages that may have been later, which no later look changes;
// with ever, one may.
func (r rules) remembers(info streamInfo, since time.Time) (why string, ever bool) {
	skew := time.Duration(r.config.ClockSkew)
	if !info.At.IsZero() && (info.At.Before(info.asked.Add(-skew)) || info.At.After(info.answered.Add(skew))) {
		return "the clocks of the server and of this machine differ by more than " + r.config.ClockSkew.String(), true
	}
	return r.forgets(info, since), false
}

// forgets is remembers, by clocks that agree.
func (r rules) forgets(info streamInfo, since time.Time) string {
	skew := time.Duration(r.config.ClockSkew)
	switch {
	case since.IsZero():
		return "it is not known when the first send was"
	case !info.Created.Before(since.Add(-skew)):
		return "the stream was created after the first send, or at most " + r.config.ClockSkew.String() + " before it"
	case info.State.Lost != nil:
		return "the stream has lost messages"
	case info.State.Deleted > 0:
		return "messages were deleted from the stream"
	case info.State.FirstSeq > 1 && (info.State.Messages == 0 || !info.State.FirstAt.Before(since.Add(-skew))):
		return "the stream has removed messages that may be later than the first send"
	default:
		return ""
	}
}

// maxSilence is how long a leader may not have heard of another server of its stream that counts as
// its follower. A server elects another leader after 4 s without one, at the earliest.
const maxSilence = 4 * time.Second

// leads returns why what answers may not be the leader of the stream any more, or "". A leader that
// was cut off from the others answers until it notices, and does not have what they have stored.
func (info streamInfo) leads() string {
	switch {
	case info.Config.Replicas <= 1:
		return ""
	case info.Cluster == nil || info.Cluster.Leader == "":
		return "the stream has no leader"
	}
	following := 1 // the leader
	for _, peer := range info.Cluster.Replicas {
		if !peer.Offline && peer.Active > 0 && peer.Active < maxSilence {
			following++
		}
	}
	// A stream whose replicas are being moved has more of them than it should.
	if of := max(info.Config.Replicas, 1+len(info.Cluster.Replicas)); following <= of/2 {
		return fmt.Sprintf("its leader has heard of %d of its %d replicas in the last %s", following, of,
			payment.Duration(maxSilence))
	}
	return ""
}
