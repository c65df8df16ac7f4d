package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/secret"
)

// Bounds of how callbacks are read.
const (
	repliesAtOnce = 6                      // records that are recorded at once, of each broker
	fetchAtOnce   = 1 << 20                // bytes of an answer with records, if no batch is longer
	againAtOnce   = 20                     // records of a partition that come again in one round
	replyWait     = 500 * time.Millisecond // for a record
	replyCall     = 5 * time.Second        // of a connection, and of each question to it
	replyPause    = 5 * time.Second        // after a fault, until the brokers are connected to again
	replyAgain    = time.Minute            // the longest, until a record that was not recorded comes again
	replyLater    = time.Hour              // the longest, until one that is refused, or that may be forgotten, comes again
	keepAgain     = time.Hour              // until a position that has not changed is stored again
	// refusedFor is how long this process refuses a record until it gives it up.
	refusedFor = 24 * time.Hour
	// maxWaiting bounds the records of a partition that come again. Behind so many nothing new is read.
	maxWaiting = 20_000
)

// Replies reads callbacks from a topic, by the position of a consumer group that has no members. It is a
// callback.Source. Any number of processes may read: each reads all partitions, and what was recorded is recognised.
//
// The position is stored after every record before it was taken or given up, never earlier. A process that ends
// leaves a position that is at most too early, and what it had recorded behind that comes again.
//
// It was tried against franz-go's kfake and against a stub, never against a real Kafka.
type Replies struct {
	config  Config
	wanted  wanted
	login   login
	secrets []secret.Value

	mu         sync.Mutex
	cluster    string // that the first broker was of; empty: none was reached yet
	server     int    // the index of the server that is asked first
	partitions map[int32]*progress
}

// OpenReplies returns the source of a rail's callbacks, or all faults of the configuration in one error. It resolves
// the secrets and connects to nothing.
func OpenReplies(config Config, getenv func(string) string) (*Replies, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Replies == nil {
		return nil, errors.New("replies is missing")
	}
	at, err1 := url.Parse(config.Servers[0])
	by, secrets, err2 := loginOf(config, getenv)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &Replies{
		config: config, login: by, secrets: secrets, partitions: map[int32]*progress{},
		wanted: wanted{
			topic: config.Replies.Topic, scheme: at.Scheme, replicas: config.Replicas, rules: config.repliesRules(),
		},
	}, nil
}

// Run implements callback.Source. A fault of the brokers, the topic or the group is reported and tried again.
func (r *Replies) Run(ctx context.Context, into callback.Taker) {
	for ctx.Err() == nil {
		if err := r.session(ctx, into); err != nil && ctx.Err() == nil {
			r.unread(ctx, into, err)
			pause(ctx, replyPause)
		}
	}
}

// pause waits, or until the context ends.
func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (r *Replies) unread(ctx context.Context, into callback.Taker, err error) {
	why := rails.Sanitize(secret.Redact(err.Error(), r.secrets...))
	into.Unread(ctx, fmt.Errorf("topic %s, group %s: %s", r.wanted.topic, r.config.Replies.Group, why))
}

// of returns an error about a partition.
func (r *Replies) of(partition int32, format string, args ...any) error {
	return fmt.Errorf("topic %s, group %s, partition %d: %s", r.wanted.topic, r.config.Replies.Group, partition,
		rails.Sanitize(fmt.Sprintf(format, args...)))
}

func (r *Replies) clusterID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster
}

// partition returns how far a partition was read; nil: this process has not begun it.
func (r *Replies) partition(number int32) *progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.partitions[number]
}

// session reads each partition from its leader, until one of them has a fault, another leader, or ends.
func (r *Replies) session(ctx context.Context, into callback.Taker) error {
	call, cancel := context.WithTimeout(ctx, 2*replyCall)
	defer cancel()
	c, about, err := r.reach(call)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	c.abort()
	if about.partitions < 1 || about.partitions > maxPartitions {
		return fmt.Errorf("the topic has %d partitions, must have 1 to %d", about.partitions, maxPartitions)
	}
	positions := &office{replies: r}
	defer positions.close()
	if unread := r.unbegun(about); len(unread) > 0 {
		if err := positions.load(call, into, unread); err != nil {
			return fmt.Errorf("asking for the position: %w", err)
		}
	}
	led := map[string][]int32{}
	for partition, leader := range about.leaders {
		led[leader.address] = append(led[leader.address], partition)
	}
	until, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	fault := func(err error) {
		if err != nil && ctx.Err() == nil {
			r.unread(ctx, into, err)
			pause(until, replyPause) // the other brokers go on meanwhile
		}
		end()
	}
	for address, partitions := range led {
		one := &reading{Replies: r, about: about, positions: positions, into: into, partitions: partitions,
			failed: map[int32]bool{}, known: map[int32]bool{}}
		all.Go(func() {
			if err := one.run(until, ctx, address); err != nil && until.Err() == nil {
				fault(fmt.Errorf("broker %s: %w", address, err))
			} else {
				fault(nil)
			}
		})
	}
	if len(about.leaders) < about.partitions {
		all.Go(func() {
			fault(fmt.Errorf("%d of %d partitions have no leader at the moment", about.partitions-len(about.leaders),
				about.partitions))
		})
	}
	all.Wait()
	return nil
}

// unbegun returns the partitions that have a leader, and that this process has not read.
func (r *Replies) unbegun(about topic) (unread []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, partition := range slices.Sorted(maps.Keys(about.leaders)) {
		if r.partitions[partition] == nil {
			unread = append(unread, partition)
		}
	}
	return unread
}

// reach returns a connection to the first server that answers and that may be believed, each in its share of the time.
func (r *Replies) reach(ctx context.Context) (*conn, topic, error) {
	var all []error
	servers := r.config.Servers
	by, bounded := ctx.Deadline()
	if !bounded {
		return nil, topic{}, errors.New("a search needs a deadline")
	}
	for n := range servers {
		r.mu.Lock()
		server := servers[r.server]
		r.mu.Unlock()
		share, cancel := context.WithTimeout(ctx, time.Until(by)/time.Duration(len(servers)-n))
		c, about, err := r.open(share, server)
		cancel()
		if err == nil {
			return c, about, nil
		}
		r.mu.Lock()
		r.server = (r.server + 1) % len(servers)
		r.mu.Unlock()
		all = append(all, fmt.Errorf("%s: %w", server, err))
	}
	return nil, topic{}, errors.Join(all...)
}

// open returns a connection to a broker of the cluster, which has the topic as it must be.
func (r *Replies) open(ctx context.Context, server string) (*conn, topic, error) {
	call, cancel := context.WithTimeout(ctx, replyCall)
	defer cancel()
	c, err := dial(call, server, r.login, reads)
	if err != nil {
		return nil, topic{}, err
	}
	about, err := r.look(call, c)
	return c, about, err
}

// look checks the topic and its settings, and that the broker is of the cluster that the first was of. A connection by
// which it failed has ended.
func (r *Replies) look(ctx context.Context, c *conn) (topic, error) {
	about, err := r.wanted.check(ctx, c)
	if err != nil {
		return topic{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster == "" {
		r.cluster = about.cluster
	}
	if about.cluster == "" || about.cluster != r.cluster {
		c.abort()
		return topic{}, fmt.Errorf("%w: it is of cluster %q, and the first was of %q: if the topic has moved, restart this "+
			"process", errRefused, about.cluster, r.cluster)
	}
	return about, nil
}
