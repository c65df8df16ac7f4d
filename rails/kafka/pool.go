package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
	"github.com/railhead-pay/railhead/rails/secret"
)

// maxHops bounds how often a broker may name another one as the leader.
const maxHops = 3

// take returns a connection to the leader of a partition. The leader itself has just said that it is
// one, because a record that a former leader gets is UNKNOWN and parked.
func (r *Rail) take(ctx, parent context.Context, partition int32) (*conn, *rails.Result) {
	failed := func(result payment.Result, why string) *rails.Result {
		return &rails.Result{Result: result, Message: why, OwnStop: errors.Is(parent.Err(), context.Canceled)}
	}
	if err := ctx.Err(); err != nil {
		return nil, failed(payment.ResultNotSent, "stopped before the call: "+err.Error())
	}
	if why := r.seen.loss(); why != "" {
		return nil, failed(payment.ResultRefusedRail, why)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.timeouts.Connect+r.timeouts.TLS))
	defer cancel()
	c, err := r.leader(ctx, partition)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, errRefused):
		return nil, failed(payment.ResultRefusedRail, err.Error())
	default:
		return nil, failed(payment.ResultNotSent, err.Error())
	}
}

// leader asks the known leader of a partition, and then the configured brokers, from the one that has
// last answered. Each has its share of the time that is left, so that one that is silent leaves some for
// the others. The error is errRefused if every broker that answers refuses us. A certificate that is
// not trusted is a refusal if it lasts.
func (r *Rail) leader(ctx context.Context, partition int32) (*conn, error) {
	var all []error
	refusing, untrusted, reached := 0, 0, 0
	brokers := r.brokers(partition)
	for n, broker := range brokers {
		c, err := r.follow(ctx, broker, partition, len(brokers)-n)
		if err == nil {
			r.learn(partition, c.server)
			return c, nil
		}
		r.passOver(partition, broker)
		all = append(all, err)
		switch {
		case errors.Is(err, errRefused):
			refusing++
		case tlsconf.Untrusted(err):
			untrusted++
		}
		if at, ok := errors.AsType[*net.OpError](err); !ok || at.Op != "dial" {
			reached++
		}
	}
	why := errors.Join(all...).Error()
	if untrusted+refusing == reached && (refusing > 0 || untrusted > 0 && r.impostors.Count(r.now())) {
		return nil, fmt.Errorf("%w: %s", errRefused, why)
	}
	return nil, errors.New(why)
}

// follow returns a connection to the leader that a broker names, in the share of the time that it has
// among a number of them. An error of another broker is none of the broker's own: it does not count as a
// refusal, since the other may be the only one that refuses.
func (r *Rail) follow(ctx context.Context, broker string, partition int32, among int) (*conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		share, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(among))
		defer cancel()
		ctx = share
	}
	c, about, err := r.connect(ctx, broker)
	if err != nil {
		return nil, err
	}
	for range maxHops {
		leads, known := about.leaders[partition]
		switch {
		case !known:
			r.keep(c)
			return nil, fmt.Errorf("partition %d of topic %s has no leader at the moment", partition, r.config.Topic)
		case leads.address == c.server:
			c.leads = leads.broker
			return c, nil
		}
		r.keep(c)
		if c, about, err = r.connect(ctx, leads.address); err != nil {
			return nil, fmt.Errorf("broker %d, which leads partition %d: %s", leads.broker, partition, err)
		}
	}
	r.keep(c)
	return nil, fmt.Errorf("the brokers do not agree on the leader of partition %d of topic %s", partition, r.config.Topic)
}

// connect returns a connection to a broker, and what the broker says about the topic.
func (r *Rail) connect(ctx context.Context, server string) (*conn, topic, error) {
	// An idle connection may have ended, and so does not count.
	for c := r.idleConn(server); c != nil; c = r.idleConn(server) {
		if about, err := r.wanted.check(ctx, c); err == nil || errors.Is(err, errRefused) || ctx.Err() != nil {
			return c, about, err
		}
	}
	c, err := dial(ctx, server, r.login, sends)
	if err != nil {
		return nil, topic{}, err
	}
	r.impostors.End()
	about, err := r.wanted.check(ctx, c)
	return c, about, err
}

// brokers returns the addresses that are asked for the leader of a partition, in their order.
func (r *Rail) brokers(partition int32) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	if known := r.leaders[partition]; known != "" {
		all = append(all, known)
	}
	for n := range r.config.Servers {
		server := r.config.Servers[(r.first+n)%len(r.config.Servers)]
		if !slices.Contains(all, server) {
			all = append(all, server)
		}
	}
	return all
}

func (r *Rail) learn(partition int32, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaders[partition] = address
}

// passOver forgets a leader that has failed, and makes the next search begin with the broker after one
// that has.
func (r *Rail) passOver(partition int32, server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaders[partition] == server {
		delete(r.leaders, partition)
	}
	if r.config.Servers[r.first] == server {
		r.first = (r.first + 1) % len(r.config.Servers)
	}
}

// idleConn returns an idle connection to a broker, the latest; nil: there is none.
func (r *Rail) idleConn(server string) *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, c := range slices.Backward(r.idle) {
		if c.server != server {
			continue
		}
		r.idle = slices.Delete(r.idle, n, n+1)
		if c.expires.IsZero() || time.Now().Before(c.expires) {
			return c
		}
		c.abort()
	}
	return nil
}

// keep returns a connection on which no request is under way.
func (r *Rail) keep(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || c.dead || len(r.idle) >= rails.MaxConcurrency {
		c.abort()
		return
	}
	r.idle = append(r.idle, c)
}

func loginOf(config Config, getenv func(string) string) (login, []secret.Value, error) {
	var all []error
	var secrets []secret.Value
	resolve := func(name string, ref secret.Ref) string {
		if ref.IsZero() {
			return ""
		}
		value, err := ref.Resolve(getenv)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
			return ""
		}
		secrets = append(secrets, value)
		return value.Reveal()
	}
	settings, keys, err := config.TLS.Open(getenv)
	all, secrets = append(all, err), append(secrets, keys...)
	by := login{
		tls:       settings,
		mechanism: config.Mechanism, user: config.User, password: resolve("password", config.Password),
	}
	return by, secrets, errors.Join(all...)
}
