package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/streak"
	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
	"github.com/railhead-pay/railhead/rails/secret"
)

// take returns a connection to the stream, whose settings were looked at. A fresh look, right before
// a re-send, also makes certain that the stream has forgotten nothing since the first send.
func (r *Rail) take(ctx, parent context.Context, fresh bool, since time.Time) (*conn, *rails.Result) {
	failed := func(result payment.Result, why string) *rails.Result {
		return &rails.Result{Result: result, Message: why, OwnStop: errors.Is(parent.Err(), context.Canceled)}
	}
	if err := ctx.Err(); err != nil {
		return nil, failed(payment.ResultNotSent, "stopped before the call: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.timeouts.Connect+r.timeouts.TLS))
	defer cancel()
	c := r.idleConn()
	if c == nil {
		var err error
		if c, err = r.dialAny(ctx); err != nil {
			if errors.Is(err, errRefused) {
				return nil, failed(payment.ResultRefusedRail, err.Error())
			}
			return nil, failed(payment.ResultNotSent, err.Error())
		}
	}
	if !fresh && time.Since(c.checked) < recheck && c.takes() >= maxMessage && r.seen.trusts(c.stream) {
		return c, nil
	}
	info, err := r.look(ctx, c, "")
	if err != nil {
		c.abort()
		r.passOver(c.server)
		if _, lost := errors.AsType[lossError](err); lost || errors.Is(err, errNoStream) {
			return nil, failed(payment.ResultRefusedRail, err.Error())
		}
		return nil, failed(payment.ResultNotSent, err.Error())
	}
	if faults := r.rules.faults(info.Config, c.version); len(faults) > 0 {
		c.abort()
		return nil, failed(payment.ResultRefusedRail, "stream "+r.config.Stream+" is not fit: "+strings.Join(faults, "; "))
	}
	if most := c.takes(); most < maxMessage {
		c.abort()
		return nil, failed(payment.ResultRefusedRail, fmt.Sprintf(
			"the server takes messages of at most %d bytes: set max_payload to %d", most, maxMessage))
	}
	c.checked = time.Now()
	if fresh {
		if why, ever := r.rules.remembers(info, since); why != "" {
			r.keep(c)
			return nil, &rails.Result{Result: payment.ResultNotSent, OwnStop: true, // the servers are well
				Forgets: !ever, Message: "a re-send might be a second message: " + why}
		}
	}
	return c, nil
}

// servers are those of a configuration, and with which of them a connection begins.
type servers struct {
	config Config
	login  login

	// impostors are calls that have met no trusted certificate, where any server answered at all.
	impostors streak.Streak
	now       func() time.Time

	turn  sync.Mutex
	first int // the index of the server with which a new connection begins
}

// dialAny connects to the first server that answers, from the one that has last done so. Each has its
// share of the time that is left, so that one that is silent leaves some for the others. The error is
// errRefused if every server that can be reached refuses us. A certificate that is
// not trusted is a refusal if it lasts.
func (s *servers) dialAny(ctx context.Context) (*conn, error) {
	var all []error
	refusing, untrusted, reached := 0, 0, 0
	urls, first := s.config.Servers, s.firstServer()
	for n := range urls {
		server := (first + n) % len(urls)
		c, err := s.dialOne(ctx, urls[server], len(urls)-n)
		if err == nil {
			c.server = server
			s.impostors.End()
			return c, nil
		}
		s.passOver(server)
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
	if untrusted+refusing == reached && (refusing > 0 || untrusted > 0 && s.impostors.Count(s.now())) {
		return nil, fmt.Errorf("%w: %s", errRefused, why)
	}
	return nil, errors.New(why)
}

// api returns the subject of a request to the API of JetStream.
func (s *servers) api(what string) string {
	if s.config.Domain != "" {
		return "$JS." + s.config.Domain + ".API." + what
	}
	return "$JS.API." + what
}

// request makes one request to the API of JetStream within the times of writing it and of its answer, and reads
// the answer.
func (s *servers) request(
	ctx context.Context, c *conn, what, body string, write, wait time.Duration, into any,
) error {
	answer, err := c.exchange(ctx, question(s.api(what), c.await(), []byte(body)), time.Now().Add(write), wait)
	switch {
	case err != nil:
		return errors.New(said(c, err))
	case answer.status != 0:
		return fmt.Errorf("status %d", answer.status)
	}
	return readAll(answer.data, into)
}

// dialOne connects to a server in the share of the time that it has among a number of them.
func (s *servers) dialOne(ctx context.Context, server string, among int) (*conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		share, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(among))
		defer cancel()
		ctx = share
	}
	return dial(ctx, server, s.login, s.config.InboxPrefix)
}

func (s *servers) firstServer() int {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.first
}

// passOver makes the next connection begin with the server after one that has failed.
func (s *servers) passOver(server int) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.first == server {
		s.first = (server + 1) % len(s.config.Servers)
	}
}

func (r *Rail) idleConn() *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.idle) > 0 {
		c := r.idle[len(r.idle)-1]
		r.idle = r.idle[:len(r.idle)-1]
		if c.alive() {
			return c
		}
	}
	return nil
}

// keep returns a connection on which no request is under way.
func (r *Rail) keep(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || !c.alive() || len(r.idle) >= rails.MaxConcurrency {
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
		tls:         settings,
		credentials: resolve("credentials", config.Credentials), token: resolve("token", config.Token),
		user: config.User, password: resolve("password", config.Password),
	}
	return by, secrets, errors.Join(all...)
}
