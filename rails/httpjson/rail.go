// Package httpjson is the adapter for banks and payment services with a JSON API over HTTP. It is
// driven by configuration: the request's body is a map of fields to sources, and the answer is read
// by dotted paths and code tables.
//
// The sources of a body are rail_key, instruction_id, participant_id, currency, amount.decimal
// ("10.50"), amount.trimmed ("10.5", as FSPIOP requires it), amount.minor (1050), amount.minor_text
// ("1050"), amount.number (10.50, a JSON number with exactly its decimals), payload.PATH for
// anything in the instruction's payload, and literal:TEXT. The outbox id is not a source: an
// enqueue that is repeated after a restore gets another one, and the rail would receive other bytes
// under the same key. A source followed by a question mark is left out if the payload lacks it.
// Numbers, true and false stand for themselves; maps and lists nest.
package httpjson

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
	"github.com/railhead-pay/railhead/rails/secret"
)

// Rail is the adapter of one bank. It is a rails.Rail and a rails.Checker. Open returns an Asking,
// which is also a rails.Inquirer, if the configuration has an inquiry.
type Rail struct {
	railType  string
	config    Config
	timeouts  rails.Timeouts
	checklist rails.Checklist
	exponents rails.Checks
	headers   http.Header
	secrets   []secret.Value
	signer    *signer
	sendBody  template
	sends     sendReader
	version   string
	transport *http.Transport
	single    *http.Transport // each of its connections serves one request
	closed    atomic.Bool
}

// Asking is a Rail that can also be asked what became of an instruction.
type Asking struct {
	*Rail
	askBody template
	asks    inquiryReader
}

// Open returns the rail of a configuration and a profile, and resolves its secrets. It opens no
// connection. The caller closes the rail. The rail is an *Asking, and so a rails.Inquirer, if the
// configuration has an inquiry.
func Open(config Config, profile rails.Profile, getenv func(string) string) (rails.Rail, error) {
	config = config.WithDefaults()
	if err := errors.Join(config.Validate(), profile.Validate(), config.Agrees(profile)); err != nil {
		return nil, err
	}
	httpTable, err1 := profile.Codes.HTTPTable()
	bodyTable, err2 := profile.Codes.BodyTable()
	body, err3 := compileTemplate(config.Send.Body, sendSources)
	checklist, err4 := profile.Checks.Compile()
	headers, secrets, err5 := headersOf(config, getenv)
	tlsConfig, keys, err6 := config.TLS.Open(getenv)
	tlsConfig.NextProtos = []string{"http/1.1"}
	signer, err7 := signerOf(config.Signature, getenv)
	version, err8 := renderVersion(config, profile)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8); err != nil {
		return nil, err
	}
	secrets = append(secrets, keys...)
	if signer != nil {
		secrets = append(secrets, signer.key)
	}
	dialer := &dialer{timeouts: profile.Timeouts, loopback: config.AllowLoopback, tls: tlsConfig, now: time.Now}
	r := &Rail{
		railType: profile.RailType, config: config, timeouts: profile.Timeouts,
		checklist: checklist, exponents: profile.Checks,
		headers: headers, secrets: secrets, signer: signer, sendBody: body, version: version,
		sends:     sendReader{config: config.Send.Response, http: httpTable, body: bodyTable, acceptance: profile.Acceptance},
		transport: newTransport(dialer, profile.Concurrency), single: newTransport(dialer, profile.Concurrency),
	}
	r.sends.clean = r.clean
	r.single.DisableKeepAlives = true
	if config.Inquiry == nil {
		return r, nil
	}
	askBody, err := compileTemplate(config.Inquiry.Body, inquirySources)
	if err != nil {
		return nil, err
	}
	return &Asking{Rail: r, askBody: askBody, asks: inquiryReader{
		config: config.Inquiry.Response, statuses: config.Inquiry.HTTPStatuses, http: httpTable, body: bodyTable,
		clean: r.clean,
	}}, nil
}

// Check checks the instruction against the profile's rules, the path and the template: a field
// without a source can't be sent.
func (r *Rail) Check(s rails.Send) error {
	if err := r.checklist.Check(s); err != nil {
		return err
	}
	if _, err := r.sendPath(s); err != nil {
		return err
	}
	_, err := r.render(s)
	return err
}

// Check also refuses an instruction that could be sent but not asked about.
func (a *Asking) Check(s rails.Send) error {
	if err := a.Rail.Check(s); err != nil {
		return err
	}
	_, err := a.inquiryPath(rails.Inquiry{
		RailKey: s.RailKey, InstructionID: s.InstructionID, ParticipantID: s.ParticipantID, Reference: "known later",
	})
	return err
}

func (r *Rail) render(s rails.Send) ([]byte, error) {
	payload, err := jsondoc.Parse(s.Payload)
	if err != nil {
		return nil, &rails.CheckError{Field: "payload", Rule: "JSON", Why: err.Error()}
	}
	values, err := sendValues(s, r.exponents)
	if err != nil {
		return nil, err
	}
	return r.sendBody.render(values, payload)
}

// Send implements rails.Rail. It returns NOT_SENT for an instruction that Check refuses: the caller
// checks first, and no byte left.
func (r *Rail) Send(ctx context.Context, s rails.Send) (result rails.Result) {
	body, err := r.render(s)
	if err != nil {
		return rails.Result{Result: payment.ResultNotSent, Message: r.clean(err.Error())}
	}
	path, err := r.sendPath(s)
	if err != nil {
		return rails.Result{Result: payment.ResultNotSent, Message: r.clean(err.Error())}
	}
	header := r.header(s.TraceParent, s.TraceState)
	if r.config.Send.IdempotencyHeader != "" {
		header.Set(r.config.Send.IdempotencyHeader, s.RailKey)
	}
	own := s.RailKey
	if r.config.Send.Response.EchoIs == "instruction_id" {
		own = s.InstructionID
	}
	call := r.request(r.config.Send.Method, path, header, body)
	call.veto, call.onPhase = s.BeforeFirstByte, s.OnPhase
	call.read = func(a answer) (rails.Result, bool) {
		result, class := r.sends.read(a, s.SendNo, own)
		return result, class == codes.InProgress
	}
	result, _ = r.exchange(ctx, call)
	result.Message = r.clean(result.Message)
	return result
}

// Inquire implements rails.Inquirer.
func (a *Asking) Inquire(ctx context.Context, q rails.Inquiry) rails.Result {
	config := a.config.Inquiry
	if q.Reference == "" && strings.Contains(config.Path, "{reference}") {
		return rails.Result{Result: payment.ResultUnavailable, Message: "the bank gave no reference to ask by"}
	}
	if a.sentElsewhere(q.RenderVersion) {
		return rails.Result{
			Result: payment.ResultUnavailable, OwnStop: true,
			Message: a.clean("sent by " + q.RenderVersion + " and not asked by " + a.version +
				": another system or account does not have the payment"),
		}
	}
	path, err := a.inquiryPath(q)
	if err != nil {
		return rails.Result{Result: payment.ResultUnavailable, Message: a.clean(err.Error())}
	}
	var body []byte
	if len(config.Body) > 0 {
		if body, err = a.askBody.render(inquiryValues(q), jsondoc.Doc{}); err != nil {
			return rails.Result{Result: payment.ResultUnavailable, Message: a.clean(err.Error())}
		}
	}
	own := q.RailKey
	if config.Response.EchoIs == "instruction_id" {
		own = q.InstructionID
	}
	header := a.header(q.TraceParent, q.TraceState)
	header.Set("Cache-Control", askNoCache)
	call := a.request(config.Method, path, header, body)
	call.onPhase = q.OnPhase
	call.read = func(got answer) (rails.Result, bool) { return a.asks.read(got, own), false }
	result, answered := a.exchange(ctx, call)
	if !answered {
		// An inquiry moves no money: a failure proves nothing about it, but may be one of every call.
		result.RailRefused = result.RailRefused || result.Result == payment.ResultRefusedRail
		if result.Result != payment.ResultNotSent {
			result.Result = payment.ResultUnavailable
		}
		return result
	}
	if result.Result == payment.ResultNotFound && a.formChanged(q.RenderVersion) {
		result.Result, result.OwnStop = payment.ResultUnavailable, true // the bank is well
		result.Message = "sent by " + q.RenderVersion + " and asked by " + a.version +
			": the bank may have it under another name; " + result.Message
	}
	result.Message = a.clean(result.Message)
	return result
}

func (r *Rail) request(method, path string, header http.Header, body []byte) request {
	if len(body) > 0 {
		header.Set("Content-Type", "application/json")
	}
	target := strings.TrimSuffix(r.config.BaseURL, "/") + path
	if r.signer != nil {
		signed := path
		if parsed, err := url.Parse(target); err == nil {
			signed = parsed.RequestURI()
		}
		r.signer.sign(header, method, signed, body)
	}
	return request{method: method, url: target, header: header, body: body}
}

func (r *Rail) header(traceParent, traceState string) http.Header {
	header := r.headers.Clone()
	if r.config.PropagateTrace && traceParent != "" {
		header.Set("Traceparent", traceParent)
		if traceState != "" {
			header.Set("Tracestate", traceState)
		}
	}
	return header
}

// clean prepares a text for storage. It removes secrets first: one that is cut off would not be
// found.
func (r *Rail) clean(text string) string {
	return rails.Sanitize(secret.Redact(text, r.secrets...))
}

// Close closes idle connections and ends dials that no call waits for. Calls under way continue,
// and each closes the connections that are idle at its end.
func (r *Rail) Close() error {
	r.closed.Store(true)
	r.ended()
	return nil
}

// ended runs after each call. After a call that began after Close, the transport would keep
// connections again.
func (r *Rail) ended() {
	if r.closed.Load() {
		r.transport.CloseIdleConnections()
		r.single.CloseIdleConnections()
	}
}

func (r *Rail) String() string { return "http rail " + r.railType + " (" + r.version + ")" }

// GoString keeps %#v from printing the headers.
func (r *Rail) GoString() string { return r.String() }

// LogValue implements slog.LogValuer.
func (r *Rail) LogValue() slog.Value { return slog.StringValue(r.String()) }

func headersOf(config Config, getenv func(string) string) (http.Header, []secret.Value, error) {
	header := http.Header{}
	header.Set("Accept", "application/json")
	header.Set("User-Agent", "railhead")
	var secrets []secret.Value
	var all []error
	set := func(name, prefix string, ref secret.Ref) {
		value, err := ref.Resolve(getenv)
		if err != nil {
			all = append(all, fmt.Errorf("header %s: %w", name, err))
			return
		}
		if !headerLiteral.MatchString(value.Reveal()) {
			all = append(all, fmt.Errorf("header %s: %s contains characters that a header can't have", name, ref))
			return
		}
		header.Set(name, prefix+value.Reveal())
		secrets = append(secrets, value)
	}
	for _, name := range slices.Sorted(maps.Keys(config.Headers)) {
		if value := config.Headers[name]; value.Secret.IsZero() {
			header.Set(name, value.Literal)
		} else {
			set(name, "", value.Secret)
		}
	}
	if !config.Bearer.IsZero() {
		set("Authorization", "Bearer ", config.Bearer)
	}
	return header, secrets, errors.Join(all...)
}

func signerOf(config *SignatureConfig, getenv func(string) string) (*signer, error) {
	if config == nil {
		return nil, nil
	}
	key, err := config.Secret.Resolve(getenv)
	if err != nil {
		return nil, fmt.Errorf("signature.secret: %w", err)
	}
	return &signer{config: *config, key: key, now: time.Now}, nil
}

var (
	_ rails.Rail     = (*Rail)(nil)
	_ rails.Checker  = (*Rail)(nil)
	_ rails.Checker  = (*Asking)(nil)
	_ rails.Inquirer = (*Asking)(nil)
)
