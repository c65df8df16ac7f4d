package nats

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/callback"
)

// RepliesConfig says where the callbacks of a rail are messages of a stream.
type RepliesConfig struct {
	Stream string `json:"stream"`
	// Consumer is a durable pull consumer of that stream, which an operator has made, for this rail and this
	// cell alone. All callback endpoints of the cell share it.
	Consumer string `json:"consumer"`
}

func (c RepliesConfig) validate(payments string) error {
	var all []error
	if !streamName.MatchString(c.Stream) {
		all = append(all, fmt.Errorf("replies.stream is %q, must be 1 to 64 letters, digits, _ and -", c.Stream))
	}
	if c.Stream == payments {
		all = append(all, fmt.Errorf("replies.stream is %q, the stream of the payments: their consumers would not get them",
			c.Stream))
	}
	if !streamName.MatchString(c.Consumer) {
		all = append(all, fmt.Errorf("replies.consumer is %q, must be 1 to 64 letters, digits, _ and -", c.Consumer))
	}
	return errors.Join(all...)
}

// RepliesAt names where the replies are, by servers, domain, stream and consumer; empty: there are none. Two rails
// that read at one place would take each other's.
func (c Config) RepliesAt() string {
	if c.Replies == nil {
		return ""
	}
	return strings.Join([]string{strings.ToLower(strings.Join(slices.Sorted(slices.Values(c.Servers)), ",")), c.Domain,
		c.Replies.Stream, c.Replies.Consumer}, " ")
}

// Bounds of how callbacks are read.
const (
	repliesAtOnce = 6                // connections, each with one message, as many as are recorded at once
	replyWait     = 10 * time.Second // for a message, before it is asked for again
	replyCall     = 5 * time.Second  // of a connection, and of each question to it
	replyPause    = 5 * time.Second  // after a fault, until the servers are connected to again
	replyAgain    = time.Minute      // the longest, until a message that was not recorded comes again
	replyLater    = time.Hour        // the longest, until one that is refused, or that may be forgotten, comes again
	// refusedFor is how long this process refuses a message until it gives it up.
	refusedFor = 24 * time.Hour
	// refusalsKnown bounds the messages of which the first refusal is remembered; others are not given up.
	refusalsKnown = 100_000
	// keptAtLeast is the least age at which a stream may remove a message that was not read.
	keptAtLeast = 7 * 24 * time.Hour
	ackPrefix   = "$JS.ACK."
)

// Replies reads callbacks from a durable consumer. It is a callback.Source.
type Replies struct {
	servers

	mu      sync.Mutex
	refused map[place]time.Time // when each message was refused first
	created time.Time           // of the stream that was looked at last; zero: none was
	gone    uint64              // the last message of that of which it was said that it was removed
}

// place says which message of a stream one is. The stream may be created anew, and give its numbers again.
type place struct {
	sequence uint64
	stored   int64 // when, in ns since 1970
}

// OpenReplies returns the source of a rail's callbacks, or all faults of the configuration in one error. It
// resolves the secrets and connects to nothing.
func OpenReplies(config Config, getenv func(string) string) (*Replies, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Replies == nil {
		return nil, errors.New("replies is missing")
	}
	by, _, err := loginOf(config, getenv)
	if err != nil {
		return nil, err
	}
	return &Replies{servers: servers{config: config, login: by, now: time.Now}, refused: make(map[place]time.Time)}, nil
}

// Run implements callback.Source. A fault of the servers, the stream or the consumer is reported and tried again.
func (r *Replies) Run(ctx context.Context, into callback.Taker) {
	var all sync.WaitGroup
	defer all.Wait()
	for range repliesAtOnce {
		all.Go(func() {
			for ctx.Err() == nil {
				err := r.session(ctx, into)
				if err == nil || ctx.Err() != nil {
					continue
				}
				into.Unread(ctx, fmt.Errorf("stream %s, consumer %s: %w", r.config.Replies.Stream, r.config.Replies.Consumer, err))
				pause(ctx, replyPause)
			}
		})
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

// session reads on one connection until a fault or until the context ends.
func (r *Replies) session(ctx context.Context, into callback.Taker) error {
	call, cancel := context.WithTimeout(ctx, replyCall*2)
	defer cancel()
	c, err := r.dialAny(call)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer c.abort()
	for ctx.Err() == nil {
		if err := r.fit(ctx, c, into); err != nil {
			r.passOver(c.server)
			return err
		}
		for looked := time.Now(); ctx.Err() == nil && time.Since(looked) < recheck; {
			m, err := r.pull(ctx, c)
			if err == nil && m != nil {
				err = r.settle(ctx, c, m, into)
			}
			if err != nil {
				r.passOver(c.server)
				return err
			}
		}
	}
	return nil
}

// ask makes one request to the API of JetStream, and reads its answer.
func (r *Replies) ask(ctx context.Context, c *conn, what string, into any) error {
	if err := r.request(ctx, c, what, "", replyCall, replyCall, into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// fit returns an error with what to change if the stream or the consumer could lose a report, and says which may be
// lost already.
func (r *Replies) fit(ctx context.Context, c *conn, into callback.Taker) error {
	var stream struct {
		streamInfo
		Error *apiError `json:"error"`
	}
	if err := r.ask(ctx, c, "STREAM.INFO."+r.config.Replies.Stream, &stream); err != nil {
		return err
	}
	var consumer struct {
		consumerInfo
		Error *apiError `json:"error"`
	}
	err := r.ask(ctx, c, "CONSUMER.INFO."+r.config.Replies.Stream+"."+r.config.Replies.Consumer, &consumer)
	if err != nil {
		return err
	}
	for _, failed := range []*apiError{stream.Error, consumer.Error} {
		if failed != nil {
			return errors.New(failed.Description)
		}
	}
	if why := r.removed(stream.streamInfo, consumer.consumerInfo); why != nil {
		into.Missed(ctx, why)
	}
	faults := append(r.streamFaults(stream.Config, c.version), consumer.faults(r.config.Replicas)...)
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

// pull asks for one message, and returns nil if none comes for a while.
func (r *Replies) pull(ctx context.Context, c *conn) (*message, error) {
	what := "CONSUMER.MSG.NEXT." + r.config.Replies.Stream + "." + r.config.Replies.Consumer
	body := fmt.Appendf(nil, `{"batch":1,"expires":%d}`, replyWait.Nanoseconds())
	frame := question(r.api(what), c.awaitPulled(), body)
	m, err := c.exchange(ctx, frame, time.Now().Add(replyCall), replyWait+replyCall)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, errors.New(said(c, err)))
	case strings.HasPrefix(m.reply, ackPrefix):
		return &m, nil
	case m.status == 404 || m.status == 408:
		return nil, nil
	default:
		return nil, fmt.Errorf("%s: the server says %s", what, rails.Sanitize(m.why))
	}
}

// settle has a message taken and tells the server what became of it. If the context has ended meanwhile it tells
// nothing, as it does after any fault: the message is delivered again, and what was recorded of it is recognised.
func (r *Replies) settle(ctx context.Context, c *conn, m *message, into callback.Taker) error {
	deliveries, at, err := r.delivered(m.reply)
	if err != nil {
		return err
	}
	kept := callback.Kept{
		Header: headerOf(m.head), Body: m.data, TooLong: m.long, Deliveries: deliveries, Last: r.refusedLong(at),
		From: fmt.Sprintf("message %d of stream %s", at.sequence, r.config.Replies.Stream),
	}
	fate := into.Take(ctx, kept)
	word := "+ACK"
	switch {
	case fate == callback.Refused && kept.Last:
		word = "+TERM"
	case fate == callback.Refused, fate == callback.Later:
		word = delayed(deliveries, replyLater)
	case fate != callback.Taken:
		word = delayed(deliveries, replyAgain)
		pause(ctx, time.Second) // the database is away: the next would fare no better
	}
	r.remember(at, fate == callback.Refused && !kept.Last)
	if ctx.Err() != nil {
		return nil
	}
	frame := question(m.reply, c.await(), []byte(word))
	if _, err := c.exchange(ctx, frame, time.Now().Add(replyCall), replyCall); err != nil {
		return fmt.Errorf("acknowledging %s: %w", kept.From, errors.New(said(c, err)))
	}
	return nil
}

// refusedLong reports whether a message was refused first so long ago that it is given up if it is refused again.
func (r *Replies) refusedLong(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, known := r.refused[at]
	return known && time.Since(first) >= refusedFor
}

// remember keeps when a message was refused first, as long as it is.
func (r *Replies) remember(at place, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.refused[at]
	switch {
	case !refused:
		delete(r.refused, at)
	case !known && len(r.refused) < refusalsKnown:
		r.refused[at] = time.Now()
	}
}

// delayed asks for another delivery after 5 s, 1 min, 10 min, and then an hour, but the longest wait at most.
func delayed(deliveries int, most time.Duration) string {
	waits := []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
	wait := min(waits[min(deliveries, len(waits))-1], most)
	return fmt.Sprintf(`-NAK {"delay": %d}`, wait.Nanoseconds())
}

// delivered reads how often a message was delivered, and its place in the stream, from where it is acknowledged:
// $JS.ACK.[DOMAIN.ACCOUNT.]STREAM.CONSUMER.DELIVERIES.SEQUENCE.SEQUENCE OF THE CONSUMER.STORED and more.
func (r *Replies) delivered(reply string) (deliveries int, at place, err error) {
	tokens := strings.Split(reply, ".")
	if len(tokens) >= 11 {
		tokens = tokens[2:]
	}
	if len(tokens) < 9 || tokens[2] != r.config.Replies.Stream || tokens[3] != r.config.Replies.Consumer {
		return 0, at, errors.New("a message came that is not of the consumer")
	}
	deliveries, err1 := strconv.Atoi(tokens[4])
	sequence, err2 := strconv.ParseUint(tokens[5], 10, 64)
	stored, err3 := strconv.ParseInt(tokens[7], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil || deliveries < 1 {
		return 0, at, errors.New("a message came without its number")
	}
	return deliveries, place{sequence, stored}, nil
}

// headerOf reads the headers of a message. Names in another case are the same, as over HTTP.
func headerOf(head []byte) http.Header {
	header := make(http.Header)
	_, lines, _ := strings.Cut(string(head), "\r\n")
	for line := range strings.SplitSeq(lines, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			header.Add(name, strings.TrimSpace(value))
		}
	}
	return header
}
