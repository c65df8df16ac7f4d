package kafka

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/rails/callback"
)

// progress is how far a partition was read. One goroutine uses it at a time.
type progress struct {
	next    int64              // the offset that is read next
	newest  mark               // of the last record that was brought
	waiting map[int64]*waiting // what was brought, and was neither taken nor given up, by offset
	kept    int64              // the position that the group has
	keptAt  time.Time          // when it was stored; zero: not by this process
	set     int64              // the position with which it begins, if another client or a person stored that; 0: none did
}

// mark identifies a record by its place and its content. A partition that has another record there, or none, is not
// the one that was read.
type mark struct {
	offset int64
	digest string // empty: no record was read yet
}

// waiting is a record that comes again.
type waiting struct {
	tries   int
	due     time.Time
	refused time.Time // when it was refused first, without another fate since; zero: it is not refused
}

// position is the offset before which every record was taken or given up: what the group's offset may be.
func (p *progress) position() int64 {
	first := p.next
	for offset := range p.waiting {
		first = min(first, offset)
	}
	return first
}

// due returns the first records whose time has come, in the order of their offsets.
func (p *progress) due(now time.Time) []int64 {
	var all []int64
	for offset, w := range p.waiting {
		if !now.Before(w.due) {
			all = append(all, offset)
		}
	}
	slices.Sort(all)
	return all[:min(len(all), againAtOnce)]
}

// tries returns how often a record was brought, and whether it was refused for so long that it is given up if it is
// refused again.
func (p *progress) tries(offset int64, now time.Time) (tries int, last bool) {
	w := p.waiting[offset]
	if w == nil {
		return 0, false
	}
	return w.tries, !w.refused.IsZero() && now.Sub(w.refused) >= refusedFor
}

// settle notes what became of a record.
func (p *progress) settle(offset int64, fate callback.Fate, last bool, now time.Time) {
	if fate == callback.Taken || fate == callback.Refused && last {
		delete(p.waiting, offset)
		return
	}
	w := p.waiting[offset]
	if w == nil {
		w = &waiting{}
		p.waiting[offset] = w
	}
	w.tries++
	most := replyLater
	switch {
	case fate == callback.Refused:
		w.refused = cmp.Or(w.refused, now)
	case fate == callback.Later:
		w.refused = time.Time{}
	default:
		w.refused, most = time.Time{}, replyAgain
	}
	waits := []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
	w.due = now.Add(min(waits[min(w.tries, len(waits))-1], most))
}

// noPosition is the offset of a partition in which the group has none. It is read from its first record on.
const noPosition = -1

// begin has a partition read from an offset on, and forgets what is only of an earlier log.
func (p *progress) begin(from int64) {
	*p = progress{next: from, waiting: map[int64]*waiting{}, kept: -1}
}

// noteVersion begins what is stored with a position: the cluster, and the mark of a record.
const noteVersion = "railhead/1"

func noteOf(cluster string, m mark) string {
	return strings.Join([]string{noteVersion, cluster, strconv.FormatInt(m.offset, 10), m.digest}, " ")
}

// readNote reads what was stored with a position. A position that an operator has set has none.
func readNote(note string) (cluster string, m mark, ok bool) {
	parts := strings.Split(note, " ")
	if len(parts) != 4 || parts[0] != noteVersion {
		return "", mark{}, false
	}
	offset, err := strconv.ParseInt(parts[2], 10, 64)
	return parts[1], mark{offset: offset, digest: parts[3]}, err == nil
}

// office is the broker that keeps the positions of the group.
type office struct {
	replies *Replies
	mu      sync.Mutex
	conn    *conn
}

func (o *office) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abort()
}

func (o *office) abort() {
	if o.conn != nil {
		o.conn.abort()
		o.conn = nil
	}
}

// reach returns a connection to the broker, which any broker names. After an error of the broker the next call asks
// for it again.
func (o *office) reach(ctx context.Context) (*conn, error) {
	r := o.replies
	if o.conn != nil && !o.conn.over() {
		if time.Since(o.conn.checked) < recheck {
			return o.conn, nil
		}
		if _, err := r.look(ctx, o.conn); err == nil {
			return o.conn, nil
		}
	}
	o.abort()
	c, _, err := r.reach(ctx)
	if err != nil {
		return nil, err
	}
	defer c.abort()
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.Version, request.CoordinatorKey = coordinatorVersion, r.config.Replies.Group
	var got kmsg.FindCoordinatorResponse
	if err := c.ask(ctx, request, &got); err != nil {
		return nil, err
	}
	if got.ErrorCode != 0 {
		return nil, answered(got.ErrorCode)
	}
	at := r.wanted.scheme + "://" + net.JoinHostPort(got.Host, strconv.Itoa(int(got.Port)))
	o.conn, _, err = r.open(ctx, at)
	return o.conn, err
}

// answered is the error of a broker's answer.
func answered(code int16) error {
	name, _ := nameOf(code)
	return fmt.Errorf("the broker answered %s (%d)", name, code)
}

// load asks where the group is in partitions that this process has not read, and has them read from there on.
func (o *office) load(ctx context.Context, into callback.Taker, unread []int32) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, replyCall)
	defer cancel()
	r := o.replies
	c, err := o.reach(ctx)
	if err != nil {
		return err
	}
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Version, request.Group = positionVersion, r.config.Replies.Group
	request.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: r.wanted.topic, Partitions: unread}}
	var got kmsg.OffsetFetchResponse
	if err := c.ask(ctx, request, &got); err != nil {
		return err
	}
	if got.ErrorCode != 0 && got.ErrorCode != errorNoGroup {
		c.abort()
		return answered(got.ErrorCode)
	}
	told := map[int32]kmsg.OffsetFetchResponseTopicPartition{}
	for _, topic := range got.Topics {
		for _, about := range topic.Partitions {
			if topic.Topic == r.wanted.topic {
				told[about.Partition] = about
			}
		}
	}
	for _, partition := range unread {
		about, ok := told[partition]
		if got.ErrorCode == errorNoGroup {
			about, ok = kmsg.OffsetFetchResponseTopicPartition{Partition: partition, Offset: noPosition}, true
		}
		if !ok || about.ErrorCode != 0 {
			c.abort()
			return fmt.Errorf("the position in partition %d: %w", partition, answered(cmp.Or(about.ErrorCode, -1)))
		}
		r.begin(ctx, into, about)
	}
	return nil
}

// begin has a partition read from the position of the group on.
func (r *Replies) begin(ctx context.Context, into callback.Taker, about kmsg.OffsetFetchResponseTopicPartition) {
	p := &progress{}
	p.begin(max(about.Offset, noPosition))
	defer r.add(about.Partition, p)
	if about.Offset < 0 {
		return
	}
	note := ""
	if about.Metadata != nil {
		note = *about.Metadata
	}
	cluster, newest, noted := readNote(note)
	switch {
	case noted && cluster != r.clusterID():
		p.begin(noPosition)
		into.Missed(ctx, r.of(about.Partition, "the position of the group is of cluster %s, and this is %s: all that the "+
			"partition has is read again", cluster, r.clusterID()))
	case noted:
		p.newest = newest
	default:
		p.set = about.Offset
	}
}

func (r *Replies) add(number int32, p *progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partitions[number] = p
}

// keep stores the positions of partitions that were read, where they have changed, or were stored long ago: a group
// without members forgets a position that is not stored again for its retention, a week by default.
func (o *office) keep(ctx context.Context, partitions []int32) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.replies
	about := kmsg.NewOffsetCommitRequestTopic()
	about.Topic = r.wanted.topic
	for _, partition := range partitions {
		p := r.partition(partition)
		at := p.position()
		if at == p.kept && time.Since(p.keptAt) < keepAgain {
			continue
		}
		one := kmsg.NewOffsetCommitRequestTopicPartition()
		one.Partition, one.Offset, one.LeaderEpoch = partition, at, -1
		one.Metadata = new(noteOf(r.clusterID(), p.newest))
		about.Partitions = append(about.Partitions, one)
	}
	if len(about.Partitions) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, replyCall)
	defer cancel()
	c, err := o.reach(ctx)
	if err != nil {
		return err
	}
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Version, request.Group, request.Generation = commitVersion, r.config.Replies.Group, -1
	request.Topics = append(request.Topics, about)
	var got kmsg.OffsetCommitResponse
	if err := c.ask(ctx, request, &got); err != nil {
		return err
	}
	if len(got.Topics) != 1 || got.Topics[0].Topic != r.wanted.topic {
		c.abort()
		return fmt.Errorf("the broker does not say what it has stored")
	}
	stored := map[int32]bool{}
	for _, each := range got.Topics[0].Partitions {
		if each.ErrorCode != 0 {
			c.abort()
			return answered(each.ErrorCode)
		}
		stored[each.Partition] = true
	}
	for _, one := range about.Partitions {
		if !stored[one.Partition] {
			c.abort()
			return fmt.Errorf("the broker does not say that it has stored the position of partition %d", one.Partition)
		}
		p := r.partition(one.Partition)
		p.kept, p.keptAt = one.Offset, time.Now()
	}
	return nil
}
