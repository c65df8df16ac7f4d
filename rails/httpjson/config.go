package httpjson

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
	"github.com/railhead-pay/railhead/rails/secret"
)

// Config configures the adapter of one bank: its address, headers and secrets, how the body is
// rendered and how answers are read. It is never stored in the database, and holds references to
// secrets, not secrets.
type Config struct {
	// BaseURL has the form https://bank.example/v1, without a query. An instruction sent to one
	// base URL is not sent again to another; see Rail.RenderVersion.
	BaseURL        string `json:"base_url"`
	AllowPlaintext bool   `json:"allow_plaintext"` // also allows http://, for a bank on the same machine
	AllowLoopback  bool   `json:"allow_loopback"`  // also allows addresses of this machine
	// Headers are sent with every request; a value is a literal, env:NAME or file:PATH.
	Headers map[string]HeaderValue `json:"headers"`
	Bearer  secret.Ref             `json:"bearer"` // sent as Authorization: Bearer
	// PropagateTrace sends traceparent and tracestate to the bank.
	PropagateTrace bool             `json:"propagate_trace"`
	Signature      *SignatureConfig `json:"signature"`
	TLS            tlsconf.Config   `json:"tls"`
	Send           SendConfig       `json:"send"`
	Inquiry        *InquiryConfig   `json:"inquiry"` // absent: the bank can't be asked
}

// SendConfig configures the request that makes a payment, and how its answer is read.
type SendConfig struct {
	Method string `json:"method"` // POST (default) or PUT
	// Path follows the base URL. {rail_key}, {instruction_id} and {participant_id} are replaced.
	Path string `json:"path"`
	// IdempotencyHeader is the header for the rail key; empty: none.
	IdempotencyHeader string `json:"idempotency_header"`
	// Body maps fields of the request to sources; see the package comment.
	Body     map[string]any     `json:"body"`
	Response SendResponseConfig `json:"response"`
}

// SendResponseConfig locates the parts of an answer in its JSON body, as dotted paths. At least one
// of Status and Reference is required, or an empty page would count as an acceptance.
type SendResponseConfig struct {
	Status string `json:"status"` // the status word
	// Statuses maps words to a class of package codes, to CODE if the class of the code decides, or
	// to CODE_OR_T1 if it decides when the table lists the code. Other words are looked up in the
	// profile's code table; see codes.SendWords.
	Statuses  map[string]codes.Class `json:"statuses"`
	Reference string                 `json:"reference"` // the bank's reference; an acceptance without it is UNKNOWN
	Code      string                 `json:"code"`
	Message   string                 `json:"message"`
	// Echo is our own reference. An acceptance without it, and any answer with another, is UNKNOWN.
	Echo   string `json:"echo"`
	EchoIs string `json:"echo_is"` // rail_key (default) or instruction_id
}

func (r SendResponseConfig) paths() map[string]string {
	return map[string]string{
		"status": r.Status, "reference": r.Reference, "code": r.Code, "message": r.Message, "echo": r.Echo,
	}
}

// InquiryConfig configures the request of an inquiry, and how its answer is read. An answer that it
// does not describe proves nothing.
type InquiryConfig struct {
	Method string `json:"method"` // GET (default) or POST
	// Path is as in SendConfig. {reference} is the bank's reference, from the provisional
	// acceptance; it requires acceptance PROVISIONAL.
	Path string         `json:"path"`
	Body map[string]any `json:"body"` // for POST; without the sources payload and amount
	// HTTPStatuses are the status codes whose body is read; default 200 and 404. Outside 2xx a body
	// can prove NOT_FOUND and nothing else.
	HTTPStatuses []int                 `json:"http_statuses"`
	Response     InquiryResponseConfig `json:"response"`
}

// InquiryResponseConfig is like SendResponseConfig, with the results that an inquiry may prove:
// EXECUTED, REFUSED, IN_PROGRESS, NOT_FOUND, UNAVAILABLE; or CODE if the class of the code decides.
// A word that a rail also sends if it can't trace the payment, such as RJCT with AG09, needs CODE:
// see codes.ReportWords.
type InquiryResponseConfig struct {
	Status    string                    `json:"status"`
	Statuses  map[string]payment.Result `json:"statuses"`
	Reference string                    `json:"reference"`
	Code      string                    `json:"code"`
	Message   string                    `json:"message"`
	Echo      string                    `json:"echo"`
	EchoIs    string                    `json:"echo_is"`
}

func (r InquiryResponseConfig) paths() map[string]string {
	return map[string]string{
		"status": r.Status, "reference": r.Reference, "code": r.Code, "message": r.Message, "echo": r.Echo,
	}
}

// SignatureConfig configures an HMAC-SHA256 over the request, in a header.
type SignatureConfig struct {
	Secret          secret.Ref `json:"secret"`
	Header          string     `json:"header"`
	TimestampHeader string     `json:"timestamp_header"` // Unix seconds; required if Form has a timestamp
	// Form lists what is signed: any of timestamp, method, path and body, with body last, joined by
	// a dot (timestamp.body, the default) or by nothing (timestamp+body).
	Form     string `json:"form"`
	Encoding string `json:"encoding"` // hex (default) or base64
	Prefix   string `json:"prefix"`   // precedes the signature, such as sha256=
}

// WithDefaults returns the configuration with the defaults for what was left out.
func (c Config) WithDefaults() Config {
	c.Send.Method = orElse(c.Send.Method, http.MethodPost)
	c.Send.Response.EchoIs = orElse(c.Send.Response.EchoIs, "rail_key")
	if c.Inquiry != nil {
		inquiry := *c.Inquiry
		inquiry.Method = orElse(inquiry.Method, http.MethodGet)
		inquiry.Response.EchoIs = orElse(inquiry.Response.EchoIs, "rail_key")
		if len(inquiry.HTTPStatuses) == 0 {
			inquiry.HTTPStatuses = []int{http.StatusOK, http.StatusNotFound}
		}
		c.Inquiry = &inquiry
	}
	if c.Signature != nil {
		signature := *c.Signature
		signature.Form = orElse(signature.Form, "timestamp.body")
		signature.Encoding = orElse(signature.Encoding, "hex")
		c.Signature = &signature
	}
	return c
}

func orElse(text, standard string) string {
	if text == "" {
		return standard
	}
	return text
}

// faults collects all faults, each with the path of its field first.
type faults []error

func (f *faults) refuse(field, format string, args ...any) {
	*f = append(*f, fmt.Errorf(field+" "+format, args...))
}

func (f *faults) path(field, path string) {
	if path != "" {
		if err := jsondoc.CheckPath(path); err != nil {
			f.refuse(field, "%w", err)
		}
	}
}

// Validate returns all faults in one error. It expects a configuration that WithDefaults has
// returned, and resolves no secret.
func (c Config) Validate() error {
	var all faults
	c.validateURL(&all)
	c.validateHeaders(&all)
	c.validateSend(&all)
	if c.Inquiry != nil {
		c.Inquiry.validate(&all)
	}
	if c.Signature != nil {
		c.Signature.validate(&all)
	}
	if c.TLS.ClientCert.IsZero() != c.TLS.ClientKey.IsZero() {
		all.refuse("tls.client_cert", "and tls.client_key go together")
	}
	return errors.Join(all...)
}

func (c Config) validateURL(all *faults) {
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Opaque != "":
		all.refuse("base_url", "is no absolute URL such as https://bank.example/v1")
	case base.User != nil:
		all.refuse("base_url", "holds a user or password; use bearer or headers, which can refer to a secret")
	case base.RawQuery != "" || base.Fragment != "" || strings.Contains(c.BaseURL, "?"):
		all.refuse("base_url", "has a query or fragment; put the query into a path")
	case foldsItself(base.EscapedPath()):
		all.refuse("base_url", "has a dot segment, which proxies fold away")
	case base.Scheme == "http" && !c.AllowPlaintext:
		all.refuse("base_url", "is http: any host on the way could read and change payments; "+
			"use https, or allow_plaintext for a bank on the same machine")
	case base.Scheme != "http" && base.Scheme != "https":
		all.refuse("base_url", "has scheme %q, must be https", base.Scheme)
	}
}

func (c Config) validateSend(all *faults) {
	s := c.Send
	if s.Method != http.MethodPost && s.Method != http.MethodPut {
		all.refuse("send.method", "is %q, must be POST or PUT", s.Method)
	}
	validatePath(all, "send.path", s.Path, "rail_key", "instruction_id", "participant_id")
	if len(s.Body) == 0 {
		all.refuse("send.body", "is empty: the request would carry no payment")
	}
	if _, err := compileTemplate(s.Body, sendSources); err != nil {
		all.refuse("send.body", "%w", err)
	}
	r := s.Response
	for name, path := range r.paths() {
		all.path("send.response."+name, path)
	}
	if r.Status == "" && r.Reference == "" {
		all.refuse("send.response", "names neither status nor reference: "+
			"any 2xx page, even a proxy's, would count as an acceptance")
	}
	for _, word := range slices.Sorted(maps.Keys(r.Statuses)) {
		class := r.Statuses[word]
		byCode := class == codes.ByCode || class == codes.ByCodeOrFirst
		if !byCode && !slices.Contains(codes.Classes(), class) {
			all.refuse("send.response.statuses."+word, "is %q, must be CODE, CODE_OR_T1 or one of %v", class, codes.Classes())
		}
		if byCode && r.Code == "" {
			all.refuse("send.response.statuses."+word, "is %s but send.response.code is not given", class)
		}
	}
	if len(r.Statuses) > 0 && r.Status == "" {
		all.refuse("send.response.statuses", "is given without send.response.status")
	}
	validateEcho(all, "send.response", r.EchoIs)
}

func (i InquiryConfig) validate(all *faults) {
	if i.Method != http.MethodGet && i.Method != http.MethodPost {
		all.refuse("inquiry.method", "is %q, must be GET or POST", i.Method)
	}
	if (i.Method == http.MethodPost) != (len(i.Body) > 0) {
		all.refuse("inquiry.body", "goes with method POST and with no other")
	}
	validatePath(all, "inquiry.path", i.Path, "rail_key", "instruction_id", "participant_id", "reference")
	if _, err := compileTemplate(i.Body, inquirySources); err != nil {
		all.refuse("inquiry.body", "%w", err)
	}
	for n, status := range i.HTTPStatuses {
		if status < 200 || status > 599 || status >= 300 && status < 400 {
			all.refuse(fmt.Sprintf("inquiry.http_statuses.%d", n), "is %d, must be 200 to 599 and no redirect", status)
		}
	}
	r := i.Response
	for name, path := range r.paths() {
		all.path("inquiry.response."+name, path)
	}
	if r.Status == "" {
		all.refuse("inquiry.response.status", "is needed: without a word for it no answer proves anything")
	}
	proofs := []payment.Result{
		payment.ResultExecuted, payment.ResultRefused, payment.ResultInProgress,
		payment.ResultNotFound, payment.ResultUnavailable, codes.ReportedByCode,
	}
	for _, word := range slices.Sorted(maps.Keys(r.Statuses)) {
		if !slices.Contains(proofs, r.Statuses[word]) {
			all.refuse("inquiry.response.statuses."+word, "is %q, must be one of %v", r.Statuses[word], proofs)
		}
		if r.Statuses[word] == codes.ReportedByCode && r.Code == "" {
			all.refuse("inquiry.response.statuses."+word, "is CODE but inquiry.response.code is not given")
		}
	}
	validateEcho(all, "inquiry.response", r.EchoIs)
}

func validateEcho(all *faults, field, echoIs string) {
	if echoIs != "rail_key" && echoIs != "instruction_id" {
		all.refuse(field+".echo_is", "is %q, must be rail_key or instruction_id", echoIs)
	}
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

func validatePath(all *faults, field, path string, known ...string) {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, " #\\\r\n\t") {
		all.refuse(field, "must begin with one slash and have no space, # or backslash")
	}
	if foldsItself(path) {
		all.refuse(field, "has a dot segment, which proxies fold away")
	}
	for _, found := range placeholder.FindAllString(path, -1) {
		if !slices.Contains(known, strings.Trim(found, "{}")) {
			all.refuse(field, "has %s, known are %v", found, known)
		}
	}
	if strings.ContainsAny(placeholder.ReplaceAllString(path, ""), "{}") {
		all.refuse(field, "has an unmatched brace")
	}
}

// Requires returns, sorted and without repetitions, the paths into the payload without which no
// send can be rendered. It expects a valid configuration.
func (c Config) Requires() []string {
	body, err := compileTemplate(c.Send.Body, sendSources)
	if err != nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(body.root.payloadPaths())))
}
