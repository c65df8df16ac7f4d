package nats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Error codes of JetStream.
const (
	codeNoStream      = 10059
	codeNoMessage     = 10037
	codeWrongSequence = 10071 // the subject has a message already
	codePerSubject    = 10077 // a bound of the stream is reached, that of the subject too
	codeTable         = "jetstream"
)

// errNoStream is wrapped if the account has no such stream.
var errNoStream = errors.New("the account has no such stream")

type apiError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

// ack is the answer of a stream to a message.
type ack struct {
	Stream    string    `json:"stream"`
	Domain    string    `json:"domain"`
	Sequence  uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate"`
	Error     *apiError `json:"error"`
}

// judge returns what an answer to a message proves, and whether the connection may be used again. Before is what was
// known of the stream when the message was written.
func (r *Rail) judge(ctx context.Context, c *conn, s rails.Send, before mark, answer message) (rails.Result, bool) {
	unknown := func(format string, args ...any) (rails.Result, bool) {
		return rails.Result{Result: payment.ResultUnknown, FirstByte: true, Message: fmt.Sprintf(format, args...)}, true
	}
	var got ack
	if answer.status != 0 {
		// No stream has this subject at the moment, as far as this server knows. Another server may know better.
		return unknown("nothing acknowledged it: status %d", answer.status)
	}
	if err := readAll(answer.data, &got); err != nil {
		return unknown("the acknowledgement can't be read")
	}
	switch {
	case got.Error != nil && (got.Error.Code == codeWrongSequence || got.Error.Code == codePerSubject) &&
		r.rules.subject.hasKey():
		return r.compare(ctx, c, s, fmt.Sprintf(`{"last_by_subj":%q}`, r.rules.subject.of(s.ParticipantID, s.RailKey)),
			got.Error.Description)
	case got.Error != nil:
		// A server may report an error after it has stored the message.
		result, sound := unknown("the stream answered %s", got.Error.Description)
		result.Code, result.CodeTable = strconv.Itoa(got.Error.Code), codeTable
		return result, sound
	case got.Stream != r.config.Stream || got.Domain != cmp.Or(r.config.Domain, c.domain):
		return unknown("stream %q of domain %q acknowledged it, and not %s", got.Stream, got.Domain, r.config.Stream)
	case got.Sequence == 0:
		return unknown("the acknowledgement has no sequence")
	case got.Duplicate:
		return r.compare(ctx, c, s, fmt.Sprintf(`{"seq":%d}`, got.Sequence), "duplicate")
	}
	if wentBack := r.seen.acknowledged(r.config.Stream, before, c.stream, got.Sequence); wentBack != "" {
		// It is stored, until the stream is restored from a better copy. So what may be sent again is not up to us, and
		// "no such message" proves nothing about it.
		result, sound := unknown("acknowledged as message %d, and %s", got.Sequence, wentBack)
		result.SeenBefore = true
		return result, sound
	}
	return rails.Result{Result: payment.ResultAccepted, FirstByte: true, Reference: r.reference(got.Sequence)}, true
}

// compare reads the message that the stream has in place of ours. It counts only if it is ours: the
// stream knows the key, or the subject, and not what was sent under it.
func (r *Rail) compare(ctx context.Context, c *conn, s rails.Send, which, said string) (rails.Result, bool) {
	result := rails.Result{Result: payment.ResultUnknown, FirstByte: true, SeenBefore: true}
	kept, err := r.find(ctx, c, which)
	switch {
	case err != nil:
		result.Message = "the stream says " + said + ", and what it has can't be read: " + err.Error()
		return result, false
	case kept == nil:
		result.SeenBefore = false // a bound of the whole stream has the same code
		result.Message = "the stream says " + said + ", and has no such message"
	default:
		if differs := r.differs(kept, s.ParticipantID, s.RailKey, s.Payload); differs != "" {
			result.Message = fmt.Sprintf("the stream says %s, and its message %d has another %s", said, kept.Sequence, differs)
			break
		}
		result = rails.Result{Result: payment.ResultAccepted, FirstByte: true, Reference: r.reference(kept.Sequence),
			Message: "the stream has had it since an earlier send"}
	}
	return result, true
}

// stored is a message as a stream has it.
type stored struct {
	Subject  string `json:"subject"`
	Sequence uint64 `json:"seq"`
	Headers  []byte `json:"hdrs"`
	Data     []byte `json:"data"`
}

// differs returns in what a stored message is not a payment's, or "".
func (r *Rail) differs(kept *stored, participantID, railKey string, payload []byte) string {
	switch {
	case kept.Subject != r.rules.subject.of(participantID, railKey):
		return "subject"
	case kept.key() != railKey:
		return "Nats-Msg-Id"
	case !bytes.Equal(kept.Data, payload):
		return "content"
	default:
		return ""
	}
}

// key returns the message's Nats-Msg-Id.
func (m *stored) key() string {
	for line := range strings.SplitSeq(string(m.Headers), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, "Nats-Msg-Id") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// reference names a message: by its stream and sequence an operator finds it.
func (r *Rail) reference(sequence uint64) string {
	return r.config.Stream + "/" + strconv.FormatUint(sequence, 10)
}

// find reads one message from the leader of the stream; nil: the stream has none.
func (r *Rail) find(ctx context.Context, c *conn, which string) (*stored, error) {
	var got struct {
		Message *stored   `json:"message"`
		Error   *apiError `json:"error"`
	}
	if err := r.ask(ctx, c, "STREAM.MSG.GET."+r.config.Stream, which, &got); err != nil {
		return nil, err
	}
	switch {
	case got.Error != nil && got.Error.Code == codeNoMessage:
		return nil, nil
	case got.Error != nil:
		return nil, errors.New(got.Error.Description)
	case got.Message == nil:
		return nil, errors.New("the answer has no message")
	}
	return got.Message, nil
}

// look reads the settings and the state of the stream, and whether it has messages of a subject; "":
// of none.
func (r *Rail) look(ctx context.Context, c *conn, subject string) (info streamInfo, err error) {
	var got struct {
		streamInfo
		Error *apiError `json:"error"`
	}
	before, _ := r.seen.known() // before the question, so that a message that comes meanwhile is no fault
	body := ""
	if subject != "" {
		body = fmt.Sprintf(`{"subjects_filter":%q}`, subject)
	}
	got.asked = time.Now()
	if err := r.ask(ctx, c, "STREAM.INFO."+r.config.Stream, body, &got); err != nil {
		return info, fmt.Errorf("looking at stream %s: %w", r.config.Stream, err)
	}
	got.answered, got.skew = time.Now(), time.Duration(r.config.ClockSkew)
	got.keeps = time.Duration(r.config.KeepsFor)
	got.shared = got.Config.TTL || !r.rules.subject.covers(got.Config.Subjects)
	switch {
	case got.Error != nil && got.Error.Code == codeNoStream:
		return info, fmt.Errorf("%w: %s", errNoStream, r.config.Stream)
	case got.Error != nil:
		return info, fmt.Errorf("looking at stream %s: %s", r.config.Stream, got.Error.Description)
	}
	if c.stream, err = r.seen.looked(before, got.streamInfo); err != nil {
		return info, err
	}
	return got.streamInfo, nil
}

// ask makes one request to the API of JetStream, and reads its answer.
func (r *Rail) ask(ctx context.Context, c *conn, what, body string, into any) error {
	return r.request(ctx, c, what, body, time.Duration(r.timeouts.Write), r.answerTime(), into)
}

// readAll decodes one JSON object, with nothing after it.
func readAll(data []byte, into any) error {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("the answer is no JSON object")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return errors.New("the answer can't be read")
	}
	return nil
}
