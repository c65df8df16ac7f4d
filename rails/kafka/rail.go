// Package kafka is the adapter for a topic of Apache Kafka. An instruction is one record: its key is
// the participant, its value the payload, and its header railhead-rail-key the rail key.
//
// A topic recognises no repetition and can't be asked for a record by its key. So nothing is sent
// again after an unknown outcome: it is parked. Config.Agrees refuses a profile that says otherwise.
//
// A record is ACCEPTED only by the acknowledgement of its partition, which waits for all replicas
// in sync. Every error is UNKNOWN except those few that a leader reports before it appends alone.
//
// The adapter was tried against franz-go's kfake and against a stub, never against a real Kafka.
package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/streak"
	"github.com/railhead-pay/railhead/rails/secret"
)

// adapterVersion changes with any change of the code that changes a record.
const adapterVersion = "kafka/1"

const (
	maxPayload = 256 << 10               // bytes of a record's value
	maxRecord  = maxPayload + (64 << 10) // with its headers
	maxKey     = 1 << 10                 // bytes of a record's key
	// recheck is the age at which a connection looks at the topic's settings again.
	recheck = time.Minute
)

// Rail is the adapter of one topic. It is a rails.Rail, a rails.Checker and an io.Closer, and never a
// rails.Inquirer.
type Rail struct {
	railType  string
	config    Config
	wanted    wanted
	timeouts  rails.Timeouts
	checklist rails.Checklist
	login     login
	secrets   []secret.Value
	version   string

	mu      sync.Mutex
	idle    []*conn
	closed  bool
	first   int              // the index of the server that is asked first
	leaders map[int32]string // the address of the last known leader of each partition
	seen    *memory

	// impostors are calls that have met no trusted certificate, where any broker answered at all.
	impostors streak.Streak
	now       func() time.Time
}

// memory is what the topic has acknowledged to a process. A rail that is opened anew goes on with it.
type memory struct {
	mu           sync.Mutex
	acknowledged map[int32]int64 // the highest offset of each partition
	wentBack     string          // which partition has lost records; empty: none
}

// Inherit implements rails.Heir.
func (r *Rail) Inherit(earlier rails.Rail) {
	before, ok := earlier.(*Rail)
	if ok && destinationOf(before.version) == destinationOf(r.version) {
		r.seen = before.seen
	}
}

// destinationOf returns the part of a version that is about the destination.
func destinationOf(version string) string { return version[strings.LastIndex(version, "-")+1:] }

// Open returns the rail of a configuration and a profile, and resolves its secrets. It opens no
// connection. The caller closes the rail.
func Open(config Config, profile rails.Profile, getenv func(string) string) (*Rail, error) {
	config = config.WithDefaults()
	if err := errors.Join(config.Validate(), profile.Validate(), config.Agrees(profile)); err != nil {
		return nil, err
	}
	at, err1 := url.Parse(config.Servers[0])
	checklist, err2 := profile.Checks.Compile()
	by, secrets, err3 := loginOf(config, getenv)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return &Rail{
		railType: profile.RailType, config: config, timeouts: profile.Timeouts, checklist: checklist,
		login: by, secrets: secrets, version: versionOf(config, profile), leaders: map[int32]string{},
		now: time.Now, seen: &memory{acknowledged: map[int32]int64{}},
		wanted: wanted{
			topic: config.Topic, scheme: at.Scheme, partitions: config.Partitions, replicas: config.Replicas,
			rules: config.rules(),
		},
	}, nil
}

// RenderVersion returns the adapter's version and two digests: of the request's form (carried headers and
// the time that the broker may take), and of its destination (servers, topic, partitions, and the references of the
// secrets that identify us).
func (r *Rail) RenderVersion() string { return r.version }

func versionOf(config Config, profile rails.Profile) string {
	form := digest(strings.Join(slices.Sorted(slices.Values(profile.Headers)), ","),
		profile.Timeouts.ResponseHeader.String())
	destination := digest(strings.ToLower(strings.Join(slices.Sorted(slices.Values(config.Servers)), ",")),
		config.Topic, strconv.Itoa(config.Partitions), config.identity())
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
	if s.ParticipantID == "" || len(s.ParticipantID) > maxKey {
		return &rails.CheckError{Field: "participant_id", Rule: "KEY",
			Why: fmt.Sprintf("makes no key of 1 to %d bytes", maxKey)}
	}
	if size := len(batch(s)); size > maxRecord {
		return &rails.CheckError{Field: "headers", Rule: "SIZE",
			Why: fmt.Sprintf("make a record of %d bytes, must be at most %d", size, maxRecord)}
	}
	return nil
}

// Send implements rails.Rail.
func (r *Rail) Send(ctx context.Context, s rails.Send) rails.Result {
	result := r.send(ctx, s)
	result.Message = rails.Sanitize(secret.Redact(result.Message, r.secrets...))
	return result
}

func (r *Rail) send(parent context.Context, s rails.Send) rails.Result {
	if err := r.Check(s); err != nil {
		return rails.Result{Result: payment.ResultNotSent, Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(parent, r.timeouts.Total())
	defer cancel()
	partition := r.partition(s.ParticipantID)
	c, failure := r.take(ctx, parent, partition)
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
	frame := c.frame(r.render(s))
	if err := ctx.Err(); err != nil {
		return stopped("stopped before the first byte: " + err.Error())
	}
	sent, newest := time.Now(), r.seen.newest(partition)
	body, err := c.exchange(ctx, frame, by, time.Duration(r.timeouts.ResponseHeader+r.timeouts.Body))
	if errors.Is(err, errStalled) || errors.Is(err, errEnded) {
		return stopped(err.Error())
	}
	var result rails.Result
	if err != nil {
		result = rails.Result{
			Result: payment.ResultUnknown, FirstByte: true, OwnStop: errors.Is(parent.Err(), context.Canceled),
			Message: "no complete answer: " + err.Error(),
		}
	} else {
		if s.OnPhase != nil {
			s.OnPhase(rails.PhaseAnswered)
		}
		r.keep(c)
		result = r.judge(partition, newest, body)
	}
	if result.Result != payment.ResultAccepted {
		// An operator who decides about it has to know where it may be, and which broker may yet append it.
		// A refusal may count as UNKNOWN too.
		result.Place = fmt.Sprintf("sent to the leader of partition %d of topic %s, broker %d, at %s", partition,
			r.config.Topic, c.leads, sent.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	return result
}

// Close ends the idle connections, and each other one when its call has ended.
func (r *Rail) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, c := range r.idle {
		c.abort()
	}
	r.idle = nil
	return nil
}

func (r *Rail) String() string { return "kafka rail " + r.railType + " (" + r.version + ")" }

// GoString keeps %#v from printing the login.
func (r *Rail) GoString() string { return r.String() }

// Format keeps every verb from printing the login.
func (r *Rail) Format(state fmt.State, _ rune) { fmt.Fprint(state, r.String()) }

// LogValue implements slog.LogValuer.
func (r *Rail) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON implements json.Marshaler.
func (r *Rail) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

var (
	_ rails.Rail    = (*Rail)(nil)
	_ rails.Checker = (*Rail)(nil)
	_ rails.Heir    = (*Rail)(nil)
)
