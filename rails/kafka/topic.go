package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/payment"
)

// wanted is a topic, and what it has to be.
type wanted struct {
	topic      string
	scheme     string // of all brokers
	partitions int    // 0: any number
	replicas   int
	rules      []rule
}

// topic is what a broker reports about a topic: the cluster, the number of its partitions, the leader of each that
// has one, by its number, and the faults of its partitions.
type topic struct {
	cluster    string // empty: the broker does not say
	partitions int
	leaders    map[int32]leader
	faults     []string
}

// leader is a broker that leads a partition.
type leader struct {
	broker  int32
	epoch   int32 // how often the partition has had a new leader
	address string
}

// check asks for the topic, and looks at its settings if that was not done lately. A connection by which it failed
// has ended.
func (w wanted) check(ctx context.Context, c *conn) (topic, error) {
	about, err := w.look(ctx, c)
	if err != nil {
		c.abort()
		return topic{}, err
	}
	faults := about.faults
	if time.Since(c.checked) >= recheck {
		more, err := w.settings(ctx, c)
		if err != nil {
			c.abort()
			return topic{}, err
		}
		faults = append(faults, more...)
	}
	if len(faults) > 0 {
		c.abort()
		return topic{}, fmt.Errorf("%w: topic %s is not fit: %s", errRefused, w.topic, strings.Join(faults, "; "))
	}
	if time.Since(c.checked) >= recheck {
		c.checked = time.Now()
	}
	return about, nil
}

// look asks for the leaders of the topic. It creates no topic.
func (w wanted) look(ctx context.Context, c *conn) (topic, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Version, request.AllowAutoTopicCreation = metadataVersion, false
	named := kmsg.NewMetadataRequestTopic()
	named.Topic = &w.topic
	request.Topics = append(request.Topics, named)
	var got kmsg.MetadataResponse
	if err := c.ask(ctx, request, &got); err != nil {
		return topic{}, fmt.Errorf("asking for the leaders of topic %s: %w", w.topic, err)
	}
	if len(got.Topics) != 1 || got.Topics[0].Topic == nil || *got.Topics[0].Topic != w.topic {
		return topic{}, fmt.Errorf("asking for the leaders of topic %s: the answer is about another", w.topic)
	}
	if err := w.about(got.Topics[0].ErrorCode); err != nil {
		return topic{}, err
	}
	brokers := map[int32]string{}
	for _, broker := range got.Brokers {
		brokers[broker.NodeID] = w.scheme + "://" + net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
	}
	partitions := got.Topics[0].Partitions
	found := topic{partitions: len(partitions), leaders: map[int32]leader{}}
	if got.ClusterID != nil {
		found.cluster = *got.ClusterID
	}
	if w.partitions > 0 && len(partitions) != w.partitions {
		found.faults = append(found.faults, fmt.Sprintf("it has %d partitions, and kafka.partitions is %d: participants "+
			"would change partitions; set kafka.partitions when nothing is under way", len(partitions), w.partitions))
	}
	fewest := maxReplicas
	for _, partition := range partitions {
		fewest = min(fewest, len(partition.Replicas))
		if address := brokers[partition.Leader]; partition.ErrorCode == 0 && address != "" {
			found.leaders[partition.Partition] = leader{partition.Leader, partition.LeaderEpoch, address}
		}
	}
	if fewest < w.replicas {
		found.faults = append(found.faults, fmt.Sprintf("a partition has %d replicas, must have at least kafka.replicas %d",
			fewest, w.replicas))
	}
	return found, nil
}

// about returns what an error about the topic means. That a broker knows no such topic passes: one that
// has just started, or has a new leader, knows none yet.
func (w wanted) about(code int16) error {
	name, _ := nameOf(code)
	switch code {
	case 0:
		return nil
	case errorTopicNotAllowed, errorClusterNotAllowed, errorInvalidTopic:
		return fmt.Errorf("%w: topic %s: %s", errRefused, w.topic, name)
	default:
		return fmt.Errorf("topic %s: %s", w.topic, name)
	}
}

// settings asks for the settings of the topic, and returns their faults.
func (w wanted) settings(ctx context.Context, c *conn) ([]string, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Version = describeVersion
	named := kmsg.NewDescribeConfigsRequestResource()
	named.ResourceType, named.ResourceName = kmsg.ConfigResourceTypeTopic, w.topic
	for _, rule := range w.rules {
		named.ConfigNames = append(named.ConfigNames, rule.name)
	}
	request.Resources = append(request.Resources, named)
	var got kmsg.DescribeConfigsResponse
	if err := c.ask(ctx, request, &got); err != nil {
		return nil, fmt.Errorf("looking at topic %s: %w", w.topic, err)
	}
	if len(got.Resources) != 1 || got.Resources[0].ResourceName != w.topic {
		return nil, fmt.Errorf("looking at topic %s: the answer is about another", w.topic)
	}
	if err := w.about(got.Resources[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("the settings of %w", err)
	}
	has := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, setting := range got.Resources[0].Configs {
		if setting.Value != nil {
			has[setting.Name] = setting
		}
	}
	var faults []string
	for _, rule := range w.rules {
		switch setting, shown := has[rule.name]; {
		case !shown:
			faults = append(faults, "the broker does not show "+rule.name)
		case !rule.fits(*setting.Value):
			faults = append(faults, fmt.Sprintf("%s is %q: %s", rule.name, *setting.Value, rule.must))
		case slices.Contains(topicsOwn, rule.name) && setting.Source != kmsg.ConfigSourceDynamicTopicConfig:
			faults = append(faults, fmt.Sprintf("%s is %q by a default, which another broker or controller may not have: set "+
				"it on the topic", rule.name, *setting.Value))
		}
	}
	return faults, nil
}

// The settings that have to be the topic's own: other machines than the one that shows them act on
// them, each by its own default. A controller elects the leader, and each replica flushes, compacts and removes.
const (
	settingFlush   = "flush.messages"
	settingUnclean = "unclean.leader.election.enable"
	settingCleanup = "cleanup.policy"
	settingAge     = "retention.ms"
	settingSize    = "retention.bytes"
)

var topicsOwn = []string{settingFlush, settingUnclean, settingCleanup, settingAge, settingSize}

// rule is what a setting of the topic must be.
type rule struct {
	name, must string
	fits       func(value string) bool
}

// is fits one value.
func is(wanted string) func(string) bool { return func(value string) bool { return value == wanted } }

// number fits whole numbers.
func number(fits func(int64) bool) func(string) bool {
	return func(value string) bool {
		n, err := strconv.ParseInt(value, 10, 64)
		return err == nil && fits(n)
	}
}

// rules are the settings by which a topic loses records, or hides them.
func (c Config) rules() []rule {
	insync, kept := int64(min(2, c.Replicas)), time.Duration(c.KeepsFor)
	retention := rule{settingAge, "it must be -1, or state with kafka.keeps_for that this is long enough", is("-1")}
	if kept > 0 {
		retention.must = fmt.Sprintf("it must be -1, or at least kafka.keeps_for %s", payment.Duration(kept))
		retention.fits = number(func(n int64) bool { return n == -1 || n >= kept.Milliseconds() })
	}
	all := []rule{
		{settingCleanup, "it must be delete: records have the participant as their key, of which " +
			"compaction keeps the last alone", is("delete")},
		{"max.message.bytes", fmt.Sprintf("it must be at least %d", maxRecord),
			number(func(n int64) bool { return n >= maxRecord })},
		{"message.timestamp.type", "it must be LogAppendTime: records have no time of their own", is("LogAppendTime")},
		{"min.insync.replicas",
			fmt.Sprintf("it must be at least %d: an acknowledged record would be on fewer brokers", insync),
			number(func(n int64) bool { return n >= insync })},
		{settingSize, "it must be -1: records would be removed by size, however young they are", is("-1")},
		retention,
		{"segment.bytes", fmt.Sprintf("it must be at least %d: a larger record fits into no segment", maxRecord),
			number(func(n int64) bool { return n >= maxRecord })},
		{settingUnclean, "it must be false: a broker that lacks acknowledged records could become the leader", is("false")},
	}
	if !c.Unflushed {
		all = append(all, rule{settingFlush, "it must be 1, or state with kafka.unflushed that a broker which loses " +
			"power may lose acknowledged records", is("1")})
	}
	return all
}
