// Package callback reads what a rail reports later: a signed JSON event about what became of a
// payment.
//
// The signature is that of Standard Webhooks: the header webhook-signature contains one or more of
// "v1," and the base64 of HMAC-SHA256 over id.timestamp.body, from webhook-id and
// webhook-timestamp. Several secrets may be in force, so that one can be replaced without a gap.
package callback

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
	"github.com/railhead-pay/railhead/rails/secret"
)

// Config configures the secrets of a rail's callbacks and the dotted paths of their fields.
type Config struct {
	// Secrets verify signatures; each is base64, with or without the prefix whsec_. There are at
	// most maxSecrets.
	Secrets []secret.Ref `json:"secrets"`
	Key     string       `json:"key"`    // the rail key of the payment
	Status  string       `json:"status"` // the status word
	// Statuses maps words to their meaning: EXECUTED or REFUSED; IN_PROGRESS or NOT_FOUND, which
	// prove nothing final; or CODE, if the class of the code decides as in an inquiry. A word that
	// a rail also sends if it can't trace the payment, such as RJCT with AG09, needs CODE: see
	// codes.ReportWords. Callbacks with other words are acknowledged, logged, and prove nothing.
	Statuses  map[string]payment.Result `json:"statuses"`
	Reference string                    `json:"reference"` // the rail's reference
	Code      string                    `json:"code"`
}

// Bounds.
const (
	MaxBody     = 64 << 10 // bytes
	maxSecrets  = 4
	maxEventID  = 200
	maxSkew     = 5 * time.Minute // between the timestamp and our clock, in either direction
	maxSignings = 10              // signatures in one header
)

// Errors of Read.
var (
	// ErrUnsigned means that no sender with a secret has signed the callback within maxSkew.
	ErrUnsigned = errors.New("the signature is missing or wrong")
	// ErrUnreadable means that the callback is signed but is not one of this rail.
	ErrUnreadable = errors.New("the callback can't be read")
)

// Event is a verified and parsed callback.
type Event struct {
	ID        string         // of the event; the same when the rail repeats it
	RailKey   payment.ID     // of the payment
	Result    payment.Result // EXECUTED, REFUSED, or empty: it proves nothing final
	Doubt     string         // why a word proves nothing that should mean something; empty otherwise
	Unmapped  bool           // the word is none of Config.Statuses
	Reference string
	Code      string
}

// Kept is a callback that was kept for us, such as a message of a stream.
type Kept struct {
	Header     http.Header
	Body       []byte
	TooLong    bool   // the body is longer than any callback, and was left out
	From       string // names it for the log
	Deliveries int    // how often it was brought, this time included; from 1
	Last       bool   // it is given up if it is refused now
}

// Fate is what became of a callback that is kept.
type Fate int

// The fates of a callback. The zero value asks for it again.
const (
	Again   Fate = iota // not recorded, because the database is away or busy
	Later               // not recorded, because the database may have forgotten its payment
	Taken               // its evidence is durable, or it was no news
	Refused             // it is not signed, not readable or not about a payment of ours, as far as is known now
)

// Taker takes callbacks that were kept, several at once.
type Taker interface {
	Take(ctx context.Context, kept Kept) Fate
	// Unread hears why the callbacks that wait can't be read now.
	Unread(ctx context.Context, why error)
	// Missed hears why callbacks may be lost: what is gone where they are kept, or can't be read there at all. It is
	// said once of each; the source goes on behind it.
	Missed(ctx context.Context, why error)
}

// Source brings the callbacks that are kept for a rail.
type Source interface {
	// Run brings one callback after another, some at once, until the context ends; then it waits until those under
	// way were taken. It brings a callback again until it was Taken, or was Refused for a day.
	Run(ctx context.Context, into Taker)
}

// Validate returns all faults in one error, each with its field first.
func (c Config) Validate() error {
	var all []error
	if n := len(c.Secrets); n < 1 || n > maxSecrets {
		all = append(all, fmt.Errorf("secrets are %d, must be 1 to %d", n, maxSecrets))
	}
	for n, ref := range c.Secrets {
		if ref.IsZero() {
			all = append(all, fmt.Errorf("secrets.%d is empty", n))
		}
	}
	if c.Key == "" {
		all = append(all, errors.New("key is missing: without it a callback names no payment"))
	}
	if c.Status == "" || len(c.Statuses) == 0 {
		all = append(all, errors.New("status and statuses are needed to interpret a callback"))
	}
	proofs := []payment.Result{
		payment.ResultExecuted, payment.ResultRefused, payment.ResultInProgress,
		payment.ResultNotFound, codes.ReportedByCode,
	}
	for _, word := range slices.Sorted(maps.Keys(c.Statuses)) {
		if !slices.Contains(proofs, c.Statuses[word]) {
			all = append(all, fmt.Errorf("statuses.%s is %q, must be one of %v", word, c.Statuses[word], proofs))
		}
		if c.Statuses[word] == codes.ReportedByCode && c.Code == "" {
			all = append(all, fmt.Errorf("statuses.%s is CODE but code is not given", word))
		}
	}
	return errors.Join(all...)
}

// Paths returns a joined error of the paths that are none, by which nothing is ever found, each with its field first.
// Open does not ask it: a rail that is in force goes on, and its file is refused when it is checked or applied again.
func (c Config) Paths() error {
	var all []error
	for _, field := range []struct{ name, path string }{
		{"key", c.Key}, {"status", c.Status}, {"reference", c.Reference}, {"code", c.Code},
	} {
		if field.path == "" {
			continue
		}
		if err := jsondoc.CheckPath(field.path); err != nil {
			all = append(all, fmt.Errorf("%s %w", field.name, err))
		}
	}
	return errors.Join(all...)
}

// Reader reads the callbacks of one rail.
type Reader struct {
	config Config
	table  *codes.Table
	keys   [][]byte
	now    func() time.Time
}

// Open resolves the secrets. The table classifies the rail's codes; timestamps are compared with
// now.
func Open(config Config, table *codes.Table, getenv func(string) string, now func() time.Time) (*Reader, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	r := &Reader{config: config, table: table, now: now}
	for _, ref := range config.Secrets {
		value, err := ref.Resolve(getenv)
		if err != nil {
			return nil, err
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(value.Reveal(), "whsec_"))
		if err != nil || len(key) < 16 {
			return nil, fmt.Errorf("%s: a callback secret is the base64 of 16 bytes or more", ref)
		}
		r.keys = append(r.keys, key)
	}
	return r, nil
}

// Read verifies the signature first, and trusts nothing before that. The signature must have been made within
// maxSkew of now.
func (r *Reader) Read(header http.Header, body []byte) (Event, error) {
	id, seconds, err := r.verify(header, body)
	if err != nil {
		return Event{}, err
	}
	if skew := r.now().Sub(time.Unix(seconds, 0)); skew > maxSkew || skew < -maxSkew {
		return Event{}, fmt.Errorf("%w: its timestamp is %s from now", ErrUnsigned, skew.Abs().Round(time.Second))
	}
	return r.event(id, body)
}

// ReadKept is Read for a callback that was kept, however long ago it was signed: who keeps it may have kept it for
// days, and a repetition is recognised by its event.
func (r *Reader) ReadKept(header http.Header, body []byte) (Event, error) {
	id, _, err := r.verify(header, body)
	if err != nil {
		return Event{}, err
	}
	return r.event(id, body)
}

func (r *Reader) event(id string, body []byte) (Event, error) {
	doc, err := jsondoc.Parse(body)
	if err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	key, ok := doc.Text(r.config.Key)
	if !ok {
		return Event{}, fmt.Errorf("%w: no text at %s", ErrUnreadable, r.config.Key)
	}
	railKey, err := payment.ParseRailKey(key)
	if err != nil {
		return Event{}, fmt.Errorf("%w: what is at %s was not sent by us", ErrUnreadable, r.config.Key)
	}
	status := doc.Word(r.config.Status)
	if status.Kind != jsondoc.Text {
		return Event{}, fmt.Errorf("%w: no text at %s", ErrUnreadable, r.config.Status)
	}
	event := Event{ID: id, RailKey: railKey}
	// A reference that is missing or not plain proves nothing and is left out.
	if reference, ok := doc.Text(r.config.Reference); ok && r.config.Reference != "" {
		event.Reference = rails.CleanReference(reference)
	}
	code := r.code(doc)
	if code != codes.Unusable {
		event.Code = code
	}
	if _, listed := r.config.Statuses[status.Text]; !listed {
		event.Unmapped, event.Doubt = true, "its word is none of callback.statuses" // which is not ours to print
		return event, nil
	}
	event.Result, event.Doubt = r.evidence(status.Text, code)
	return event, nil
}

// code returns the code of a callback; empty: it has none, or one that is blank. One that can't be stored is one that
// no table lists.
func (r *Reader) code(doc jsondoc.Doc) string {
	if r.config.Code == "" {
		return ""
	}
	switch found := doc.Look(r.config.Code); {
	case found.Kind == jsondoc.Absent || found.Kind == jsondoc.Blank:
		return ""
	case found.Kind == jsondoc.Text && rails.PlainCode(found.Text):
		return found.Text
	default:
		return codes.Unusable
	}
}

// evidence returns what a listed status word and a code prove for good. "Not found" and "in progress" are
// left to an inquiry: the callback may be older than the send that it seems to be about.
func (r *Reader) evidence(word, code string) (payment.Result, string) {
	report := codes.ReportWords{Words: r.config.Statuses, Table: r.table}.Read(word, code)
	byCode := r.config.Statuses[word] == codes.ReportedByCode
	if entry, listed := r.table.Find(code); listed && byCode && entry.Class == codes.Business {
		// The code is about one send, which the profile may have repeated.
		return "", "a refusal for lack of funds, a limit or the hour, of one send"
	}
	switch report.Result {
	case payment.ResultExecuted, payment.ResultRefused:
		return report.Result, ""
	case payment.ResultUnavailable:
		if code == codes.Unusable && byCode {
			report.Doubt = "its code can't be used: it is no text, too long, or has control characters"
		}
		if report.Doubt == "" {
			report.Doubt = "the code proves nothing about the payment"
		}
		return "", report.Doubt
	default:
		return "", ""
	}
}

// verify returns the id of an event that a sender with a secret has signed, and when, in seconds since 1970. What is
// signed has dots between the three, and so may an id: the timestamp has to be a number, or a part of the id could be
// moved into it, and the same signature would be that of another event.
func (r *Reader) verify(header http.Header, body []byte) (id string, seconds int64, _ error) {
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || len(id) > maxEventID || err != nil || strings.Trim(stamp, "0123456789") != "" {
		return "", 0, ErrUnsigned
	}
	signatures := strings.Fields(header.Get("webhook-signature"))
	for _, each := range signatures[:min(len(signatures), maxSignings)] {
		text, ok := strings.CutPrefix(each, "v1,")
		if !ok {
			continue
		}
		given, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		for _, key := range r.keys {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(id + "." + stamp + "."))
			mac.Write(body)
			if hmac.Equal(given, mac.Sum(nil)) {
				return id, seconds, nil
			}
		}
	}
	return "", 0, ErrUnsigned
}
