package kafka

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// RepliesConfig says where the callbacks of a rail are records of a topic.
type RepliesConfig struct {
	// Topic is of the same cluster, and has the callbacks of this rail and this cell alone: it has no filter.
	Topic string `json:"topic"`
	// Group names the consumer group whose offsets are the position. All callback endpoints of the cell share it, and
	// it has no members.
	Group string `json:"group"`
}

var groupName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)

func (c RepliesConfig) validate(payments string) error {
	var all []error
	switch {
	case !topicName.MatchString(c.Topic) || c.Topic == "." || c.Topic == ".." || strings.HasPrefix(c.Topic, "__"):
		all = append(all, fmt.Errorf("replies.topic is %q, must be 1 to 200 letters, digits, dots, _ and -, and none of "+
			"the broker's own", c.Topic))
	case c.Topic == payments:
		all = append(all, fmt.Errorf("replies.topic is %q, the topic of the payments: their consumers would get the "+
			"callbacks", c.Topic))
	}
	if !groupName.MatchString(c.Group) {
		all = append(all, fmt.Errorf("replies.group is %q, must be 1 to 200 letters, digits, dots, _ and -", c.Group))
	}
	return errors.Join(all...)
}

// RepliesAt names the topic and the group of the replies, each with the servers; nil: there are none. Two rails with
// one topic would refuse each other's callbacks, and two with one group may take each other's place.
func (c Config) RepliesAt() []string {
	if c.Replies == nil {
		return nil
	}
	servers := strings.ToLower(strings.Join(slices.Sorted(slices.Values(c.Servers)), ","))
	return []string{servers + " topic " + c.Replies.Topic, servers + " group " + c.Replies.Group}
}

// Bounds of the settings of a topic of replies.
const (
	// keptAtLeast is the least age at which a topic may remove a record that was not read.
	keptAtLeast = 7 * 24 * time.Hour
	// maxReply bounds a batch, so that one fits into an answer, and holds up no other.
	maxReply = 2 << 20
)

// repliesRules are the settings by which a topic removes callbacks that were not read, or holds them up.
func (c Config) repliesRules() []rule {
	insync := int64(min(2, c.Replicas))
	all := []rule{
		{"cleanup.policy", "it must be delete: compaction removes callbacks that were not read", is("delete")},
		{"compression.type", "it must be uncompressed, so that the broker unpacks what producers compress: it is read as " +
			"it is stored", is("uncompressed")},
		{"max.message.bytes", fmt.Sprintf("it must be at most %d, so that no batch is too long to be read", maxReply),
			number(func(n int64) bool { return n <= maxReply })},
		{"message.timestamp.type", "it must be LogAppendTime: a record with an old time of its own would be removed at " +
			"once", is("LogAppendTime")},
		{"min.insync.replicas",
			fmt.Sprintf("it must be at least %d: an acknowledged callback would be on fewer brokers", insync),
			number(func(n int64) bool { return n >= insync })},
		{"retention.bytes", "it must be -1: callbacks would be removed by size, however young they are", is("-1")},
		{"retention.ms", fmt.Sprintf("it must be -1, or at least %d (%s): callbacks that old are removed although they "+
			"were not read", keptAtLeast.Milliseconds(), payment.Duration(keptAtLeast)),
			number(func(n int64) bool { return n == -1 || n >= keptAtLeast.Milliseconds() })},
		{settingUnclean, "it must be false: a broker that lacks acknowledged callbacks could become the leader", is("false")},
	}
	if !c.Unflushed {
		all = append(all, rule{settingFlush, "it must be 1, or state with kafka.unflushed that a broker which loses " +
			"power may lose acknowledged callbacks", is("1")})
	}
	return all
}
