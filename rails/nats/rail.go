// Package nats is the adapter for a stream of NATS JetStream. An instruction is one message; its
// payload is the message's data. The rail key is its Nats-Msg-Id, by which the stream recognises a
// repetition within its duplicate window. Where the subject ends with the rail key, the stream
// refuses a second message for it without a bound of time, and can be asked about it.
//
// A message is ACCEPTED only by the acknowledgement of the right stream. Every error that a stream
// reports is UNKNOWN, because a server may report one after it has stored the message. "I have it
// already" counts only after the stored message was read and compared.
package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/secret"
)

// adapterVersion changes with any change of the code that changes a message.
const adapterVersion = "nats/1"

const (
	maxPayload = 256 << 10               // bytes of a message's data
	maxMessage = maxPayload + (64 << 10) // with its headers
	// recheck is the age at which a connection looks at the stream's settings again.
	recheck = time.Minute
)

// Rail is the adapter of one stream. It is a rails.Rail, a rails.Checker and an io.Closer.
type Rail struct {
	servers
	railType  string
	rules     rules
	timeouts  rails.Timeouts
	checklist rails.Checklist
	secrets   []secret.Value
	version   string

	mu     sync.Mutex
	idle   []*conn
	closed bool
	seen   *memory
}

// Inherit implements rails.Heir.
func (r *Rail) Inherit(earlier rails.Rail) {
	if asking, ok := earlier.(*Asking); ok {
		earlier = asking.Rail
	}
	if before, ok := earlier.(*Rail); ok && !r.sentElsewhere(before.version) {
		r.seen = before.seen
	}
}

// Asking is a Rail whose messages can be found. It is also a rails.Inquirer.
type Asking struct{ *Rail }

// Open returns the rail of a configuration and a profile, and resolves its secrets. It opens no
// connection. The caller closes the rail. The rail is an *Asking, and so a rails.Inquirer, if the
// profile has inquiries.
func Open(config Config, profile rails.Profile, getenv func(string) string) (rails.Rail, error) {
	config = config.WithDefaults()
	if err := errors.Join(config.Validate(), profile.Validate(), config.Agrees(profile)); err != nil {
		return nil, err
	}
	subject, err1 := parseSubject(config.Subject)
	checklist, err2 := profile.Checks.Compile()
	by, secrets, err3 := loginOf(config, getenv)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	r := &Rail{
		servers:  servers{config: config, login: by, now: time.Now},
		railType: profile.RailType, timeouts: profile.Timeouts, checklist: checklist,
		rules: rules{config: config, profile: profile, subject: subject}, secrets: secrets,
		version: versionOf(config, profile), seen: &memory{},
	}
	if profile.Inquiry.Max > 0 {
		return &Asking{Rail: r}, nil
	}
	return r, nil
}

// RenderVersion returns the adapter's version and two digests: of the message's form (subject and
// carried headers), and of its destination (servers, domain, stream, and the references of the
// secrets that identify us). That a stream was created again under the same name it does not show;
// the adapter compares the stream's time of creation with that of the first send.
func (r *Rail) RenderVersion() string { return r.version }

func versionOf(config Config, profile rails.Profile) string {
	form := digest(config.Subject, strings.Join(slices.Sorted(slices.Values(profile.Headers)), ","))
	destination := digest(strings.ToLower(strings.Join(slices.Sorted(slices.Values(config.Servers)), ",")),
		config.Domain, config.Stream, config.identity())
	return adapterVersion + "-" + form + "-" + destination
}

func digest(facts ...string) string {
	sum := sha256.New()
	for _, fact := range facts {
		fmt.Fprintf(sum, "%d:%s", len(fact), fact)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// Check implements rails.Checker.
func (r *Rail) Check(s rails.Send) error {
	if err := r.checklist.Check(s); err != nil {
		return err
	}
	if len(s.Payload) > maxPayload {
		return &rails.CheckError{Field: "payload", Rule: "SIZE", Why: fmt.Sprintf("has more than %d bytes", maxPayload)}
	}
	if subject := r.rules.subject.of(s.ParticipantID, s.RailKey); s.ParticipantID == "" || len(subject) > maxSubject {
		return &rails.CheckError{Field: "participant_id", Rule: "SUBJECT",
			Why: fmt.Sprintf("makes no subject of at most %d bytes", maxSubject)}
	}
	return nil
}

// Send implements rails.Rail.
func (r *Rail) Send(ctx context.Context, s rails.Send) rails.Result {
	result := r.send(ctx, s)
	result.Message, result.Loss = r.clean(result.Message), r.seen.told()
	return result
}

func (r *Rail) send(parent context.Context, s rails.Send) rails.Result {
	if err := r.Check(s); err != nil {
		return rails.Result{Result: payment.ResultNotSent, Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(parent, r.timeouts.Total())
	defer cancel()
	since := time.Time{}
	if s.SendNo > 1 {
		since = s.FirstSentAt
	}
	c, failure := r.take(ctx, parent, s.SendNo > 1, since)
	if failure != nil {
		return *failure
	}
	if s.OnPhase != nil {
		s.OnPhase(rails.PhaseDialled)
	}
	stopped := func(why string) rails.Result {
		r.keep(c)
		return rails.Result{Result: payment.ResultNotSent, Message: why, OwnStop: true}
	}
	by := time.Now().Add(time.Duration(r.timeouts.Write))
	if s.BeforeFirstByte != nil {
		if err := s.BeforeFirstByte(); err != nil {
			return stopped("stopped before the first byte: " + err.Error())
		}
	}
	if s.OnPhase != nil {
		s.OnPhase(rails.PhaseFirstByte)
	}
	frame := r.render(s, c.await())
	if r.rules.subject.hasKey() {
		c.asks(r.rules.subject.of(s.ParticipantID, s.RailKey))
	}
	if err := ctx.Err(); err != nil {
		return stopped("stopped before the first byte: " + err.Error())
	}
	before, lost := r.seen.known()
	if lost != "" {
		return stopped("stopped before the first byte: " + lost)
	}
	switch answer, err := c.exchange(ctx, frame, by, r.answerTime()); {
	case errors.Is(err, errStalled):
		return stopped(err.Error())
	case errors.As(err, new(unhandledError)):
		if s.OnPhase != nil {
			s.OnPhase(rails.PhaseAnswered)
		}
		return judgeUnhandled(err)
	case err != nil:
		return rails.Result{
			Result: payment.ResultUnknown, FirstByte: true, OwnStop: errors.Is(parent.Err(), context.Canceled),
			Message: "no complete answer: " + said(c, err),
		}
	default:
		if s.OnPhase != nil {
			s.OnPhase(rails.PhaseAnswered)
		}
		result, sound := r.judge(ctx, c, s, before, answer)
		if sound {
			r.keep(c)
		} else {
			c.abort()
		}
		return result
	}
}

// answerTime is the longest time from the last byte written to the answer.
func (r *Rail) answerTime() time.Duration {
	return time.Duration(r.timeouts.ResponseHeader + r.timeouts.Body)
}

// exchange writes one request, and waits for its answer. After an error other than errStalled the
// connection has ended.
func (c *conn) exchange(ctx context.Context, frame []byte, by time.Time, wait time.Duration) (message, error) {
	stop := context.AfterFunc(ctx, c.abort)
	defer stop()
	if err := c.write(frame, by); err != nil {
		if !errors.Is(err, errStalled) {
			c.abort()
		}
		return message{}, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case answer := <-c.answers:
		if !stop() {
			c.abort() // the call's end is closing it: no other call may get it
			<-c.ended
		}
		return c.sound(answer)
	case <-ctx.Done():
		c.abort()
		return message{}, ctx.Err()
	case <-timer.C:
		c.abort()
		return message{}, errors.New("no answer came in time")
	case <-c.ended:
		return c.lastAnswer(errClosed)
	}
}

// lastAnswer returns an answer that came right before the connection ended, or why there is none.
func (c *conn) lastAnswer(why error) (message, error) {
	select {
	case answer := <-c.answers:
		return c.sound(answer)
	default:
		return message{}, why
	}
}

// said is an error, with what the server has complained about.
func said(c *conn, err error) string {
	if refusal := c.refused(); refusal != "" {
		return err.Error() + "; the server says " + refusal
	}
	return err.Error()
}

// clean prepares a text for storage.
func (r *Rail) clean(text string) string { return rails.Sanitize(secret.Redact(text, r.secrets...)) }

// Close ends idle connections; those of calls under way end with the calls.
func (r *Rail) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, c := range r.idle {
		c.abort()
		<-c.ended
	}
	r.idle = nil
	return nil
}

func (r *Rail) String() string { return "nats rail " + r.railType + " (" + r.version + ")" }

// GoString keeps %#v from printing the login.
func (r *Rail) GoString() string { return r.String() }

// Format keeps every verb from printing the login.
func (r *Rail) Format(state fmt.State, _ rune) { fmt.Fprint(state, r.String()) }

// LogValue implements slog.LogValuer.
func (r *Rail) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON implements json.Marshaler.
func (r *Rail) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

var (
	_ rails.Rail     = (*Rail)(nil)
	_ rails.Checker  = (*Rail)(nil)
	_ rails.Inquirer = (*Asking)(nil)
	_ rails.Checker  = (*Asking)(nil)
	_ rails.Heir     = (*Rail)(nil)
	_ rails.Heir     = (*Asking)(nil)
)
