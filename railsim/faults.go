package railsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// FaultKind names a way in which the bank misbehaves. The name shows what becomes of the money:
// kinds that end in _before never execute, kinds that end in _after take effect once the decision
// (executed or refused) is durable in the ledger, refuse kinds refuse, delay kinds execute in the
// end. See the package comment for the table.
type FaultKind string

// Faults of a connection, drawn when it is accepted. Nothing executes.
const (
	HangAccept FaultKind = "hang_accept" // accepts and never reads a byte, nor does the TLS handshake
	HangUnread FaultKind = "hang_unread" // finishes the TLS handshake, if any, and never reads the request
)

// Faults of a payment before it is known to the bank. Nothing executes, and the key stays unknown.
const (
	StatusBefore   FaultKind = "status_before"   // answers Status (500), with RetryAfterS if set
	DropBefore     FaultKind = "drop_before"     // reads the request and closes the connection
	ResetBefore    FaultKind = "reset_before"    // reads the request and resets the connection
	HangBefore     FaultKind = "hang_before"     // reads the request and never answers
	RedirectBefore FaultKind = "redirect_before" // answers Status (307) with Location URL
)

// Faults of a payment that only postpone. The payment goes on whether or not the client still waits.
const (
	DelayArrival FaultKind = "delay_arrival" // the key stays unknown for DelayMS, then all goes on: it EXECUTES late
	DelayBefore  FaultKind = "delay_before"  // the key is in flight for DelayMS, then all goes on: it EXECUTES late
	DelayAfter   FaultKind = "delay_after"   // decided at once, answered after DelayMS
)

// Faults that refuse a new payment, with Code (AM04). A replay is not touched by them.
const (
	Refuse     FaultKind = "refuse"      // refuses for good, durably, and answers that
	RefuseDrop FaultKind = "refuse_drop" // refuses for good, durably, and closes the connection without an answer
)

// Faults of the answer to a payment that was decided durably: executed, refused, or replayed.
const (
	DropAfter           FaultKind = "drop_after"            // closes the connection without an answer
	ResetAfter          FaultKind = "reset_after"           // resets the connection without an answer
	HangAfter           FaultKind = "hang_after"            // never answers
	StatusAfter         FaultKind = "status_after"          // answers Status (500)
	RedirectAfter       FaultKind = "redirect_after"        // answers Status (307) with Location URL
	HTMLAfter           FaultKind = "html_after"            // answers 200 with an HTML page
	BadJSONAfter        FaultKind = "bad_json_after"        // answers 200 with broken JSON
	EmptyAfter          FaultKind = "empty_after"           // answers 200 with no body
	TruncatedAfter      FaultKind = "truncated_after"       // half of the true answer, with the full Content-Length
	ResentAfter         FaultKind = "resent_after"          // as to a replay: a proxy has sent it twice
	WrongIDAfter        FaultKind = "wrong_id_after"        // the true answer with the id of no payment
	AnotherIDAfter      FaultKind = "another_id_after"      // the true answer with the id of the payment before, if any
	WrongReferenceAfter FaultKind = "wrong_reference_after" // the true answer with another's reference
	HugeAfter           FaultKind = "huge_after"            // answers 200 with a JSON string of Bytes (1 GiB)
	GzipBombAfter       FaultKind = "gzip_bomb_after"       // answers 200 with gzip that unpacks to Bytes (1 GiB)
	DripHeadersAfter    FaultKind = "drip_headers_after"    // the true answer, all of it a byte each DelayMS (1 s)
	DripBodyAfter       FaultKind = "drip_body_after"       // the true answer, its body a byte each DelayMS (1 s)
)

// Faults of settlement, in provisional mode.
const (
	DelaySettle  FaultKind = "delay_settle"  // settles DelayMS later
	RefuseSettle FaultKind = "refuse_settle" // settles as refused, with Code (AM04)
)

// Faults of a callback. The ledger is settled before any of them.
const (
	CallbackLate           FaultKind = "callback_late"            // sends it DelayMS later
	CallbackNever          FaultKind = "callback_never"           // sends nothing
	CallbackDuplicate      FaultKind = "callback_duplicate"       // sends it Times (1) times more, same event
	CallbackConflict       FaultKind = "callback_conflict"        // then sends another event with the opposite status
	CallbackWrongReference FaultKind = "callback_wrong_reference" // sends it with another's reference and key
	CallbackBadSignature   FaultKind = "callback_bad_signature"   // signs it with a wrong secret
)

// Faults of an inquiry. They change the answer, never the payment.
const (
	InquiryDelay     FaultKind = "inquiry_delay"        // answers after DelayMS
	InquiryHang      FaultKind = "inquiry_hang"         // never answers
	InquiryDrop      FaultKind = "inquiry_drop"         // closes the connection
	InquiryStatus    FaultKind = "inquiry_status"       // answers Status (503): unavailable
	InquiryUnknown   FaultKind = "inquiry_inconclusive" // 200 with status INCONCLUSIVE
	InquiryGarbage   FaultKind = "inquiry_garbage"      // 200 with an HTML page
	InquiryWrongID   FaultKind = "inquiry_wrong_id"     // the true status of the payment under another's key and reference
	InquiryNotFound  FaultKind = "inquiry_not_found"    // NOT_FOUND, which is false
	InquiryLag       FaultKind = "inquiry_lag"          // until DelayMS after the decision: NOT_FOUND, or Answer
	InquiryBlind     FaultKind = "inquiry_blind"        // NOT_FOUND instead of IN_PROGRESS while the payment is on its way
	InquiryNoTrace   FaultKind = "inquiry_no_trace"     // 200 REFUSED with AG09 for NOT_FOUND and IN_PROGRESS
	InquiryForgetful FaultKind = "inquiry_forgetful"    // NOT_FOUND from DelayMS after the decision on: aged out
)

// stage is the point at which a kind of fault is drawn.
type stage int

const (
	stageConn stage = iota + 1
	stagePayment
	stageSettle
	stageCallback
	stageInquiry
)

// shape contains what the validation of a rule depends on.
type shape struct {
	stage   stage
	delay   bool // it postpones and lets the next rule apply too
	fresh   bool // it applies to new payments only, not to replays
	delayMS bool // DelayMS is required
	url     bool // URL is required
}

// shapeOf describes the known kinds. Keep it, the constants and the package comment in step; a test does.
func shapeOf(k FaultKind) (shape, bool) {
	switch k {
	case HangAccept, HangUnread:
		return shape{stage: stageConn}, true
	case DelayArrival, DelayBefore:
		return shape{stage: stagePayment, delay: true, fresh: true, delayMS: true}, true
	case DelayAfter:
		return shape{stage: stagePayment, delay: true, delayMS: true}, true
	case Refuse, RefuseDrop, ResentAfter:
		return shape{stage: stagePayment, fresh: true}, true
	case RedirectBefore, RedirectAfter:
		return shape{stage: stagePayment, url: true}, true
	case StatusBefore, DropBefore, ResetBefore, HangBefore,
		DropAfter, ResetAfter, HangAfter, StatusAfter, HTMLAfter, BadJSONAfter, EmptyAfter, TruncatedAfter,
		WrongIDAfter, AnotherIDAfter, WrongReferenceAfter, HugeAfter, GzipBombAfter, DripHeadersAfter, DripBodyAfter:
		return shape{stage: stagePayment}, true
	case DelaySettle:
		return shape{stage: stageSettle, delay: true, delayMS: true}, true
	case RefuseSettle:
		return shape{stage: stageSettle}, true
	case CallbackLate:
		return shape{stage: stageCallback, delay: true, delayMS: true}, true
	case CallbackNever, CallbackDuplicate, CallbackConflict, CallbackWrongReference, CallbackBadSignature:
		return shape{stage: stageCallback}, true
	case InquiryDelay:
		return shape{stage: stageInquiry, delay: true, delayMS: true}, true
	case InquiryLag, InquiryForgetful:
		return shape{stage: stageInquiry, delayMS: true}, true
	case InquiryHang, InquiryDrop, InquiryStatus, InquiryUnknown, InquiryGarbage, InquiryWrongID, InquiryNotFound,
		InquiryBlind, InquiryNoTrace:
		return shape{stage: stageInquiry}, true
	}
	return shape{}, false
}

// Fault is one rule. Of the delays that hit a request all apply; of the other kinds the first in the list that hits.
type Fault struct {
	// Kind is what happens.
	Kind FaultKind `json:"kind"`
	// Probability is the share of matching events that it happens to, 0 to 1. In JSON an absent one means 1.
	Probability float64 `json:"probability"`
	// Match narrows the rule; its zero value matches everything.
	Match Match `json:"match,omitzero"`
	// Limit bounds how often the rule is applied. 0 means without limit.
	Limit int64 `json:"limit,omitempty"`
	// DelayMS is the delay, lag or drip interval, in milliseconds, up to Config.MaxHang. For a hang it is the
	// time after which the connection is closed; 0 means Config.MaxHang.
	DelayMS int64 `json:"delay_ms,omitempty"`
	// Status is the HTTP status of status and redirect kinds.
	Status int `json:"status,omitempty"`
	// RetryAfterS is sent as Retry-After by status kinds, in seconds, when above 0.
	RetryAfterS int `json:"retry_after_s,omitempty"`
	// Plain makes status kinds answer with a page instead of the bank's JSON, as a proxy in front
	// of a bank does.
	Plain bool `json:"plain,omitempty"`
	// Word is the status in the body of status kinds: ERROR when empty.
	Word string `json:"word,omitempty"`
	// Code and Message are the reason given by refuse kinds, and the code in the body of status kinds.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// URL is where redirect kinds point to.
	URL string `json:"url,omitempty"`
	// Bytes is the size of huge and bomb kinds. 0 means 1 GiB; at most 16 GiB.
	Bytes int64 `json:"bytes,omitempty"`
	// Times is how many duplicates callback_duplicate sends. 0 means 1; at most 100.
	Times int `json:"times,omitempty"`
	// Answer is the status that inquiry_lag answers: NOT_FOUND when empty, or IN_PROGRESS.
	Answer string `json:"answer,omitempty"`
}

// Match narrows a rule. All that is set must fit.
type Match struct {
	KeyPrefix       string `json:"key_prefix,omitempty"`
	ReferencePrefix string `json:"reference_prefix,omitempty"`
	Creditor        string `json:"creditor,omitempty"`
	// Nth is which send of a key: 1 for the first only. For inquiries it counts inquiries, for connection faults
	// connections. 0 matches all.
	Nth int64 `json:"nth,omitempty"`
}

// maxFaults bounds the rules in force.
const maxFaults = 256

// UnmarshalJSON reads a rule strictly, and takes an absent probability for 1.
func (f *Fault) UnmarshalJSON(data []byte) error {
	type plain Fault
	rule := struct {
		*plain
		Probability *float64 `json:"probability"`
		Matched     int64    `json:"matched"`  // of GET /admin/faults, so that it can be written back
		Injected    int64    `json:"injected"` // likewise
	}{plain: (*plain)(f)}
	if err := strictJSON(data, &rule); err != nil {
		return err
	}
	f.Probability = 1
	if rule.Probability != nil {
		f.Probability = *rule.Probability
	}
	return nil
}

// ParseFaults reads a fault file: {"rules": [...]}. Unknown fields are errors, so that a misspelt rule can't silently
// match everything.
func ParseFaults(data []byte) ([]Fault, error) {
	var file struct {
		Rules []Fault `json:"rules"`
		Seed  uint64  `json:"seed"`   // shown by GET /admin/faults, ignored here
		Total any     `json:"totals"` // likewise
	}
	if err := strictJSON(data, &file); err != nil {
		return nil, fmt.Errorf("parse faults: %w", err)
	}
	return file.Rules, nil
}

func strictJSON(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one JSON value")
	}
	return nil
}

func validateFaults(rules []Fault, maxHang time.Duration) error {
	var errs []error
	if len(rules) > maxFaults {
		errs = append(errs, fmt.Errorf("%d fault rules, at most %d", len(rules), maxFaults))
	}
	for i, f := range rules[:min(len(rules), maxFaults)] {
		if err := f.validate(maxHang); err != nil {
			errs = append(errs, fmt.Errorf("fault rule %d (%s): %w", i+1, f.Kind, err))
		}
	}
	return errors.Join(errs...)
}

func (f Fault) validate(maxHang time.Duration) error {
	s, known := shapeOf(f.Kind)
	if !known {
		return errors.New("kind is not known")
	}
	redirect := f.Kind == RedirectBefore || f.Kind == RedirectAfter
	var errs []error
	refuse := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	refuse(!(f.Probability >= 0 && f.Probability <= 1), "probability is not within 0 and 1")
	refuse(f.Limit < 0 || f.Match.Nth < 0 || f.RetryAfterS < 0, "limit, nth or retry_after_s is negative")
	refuse(f.DelayMS < 0 || f.DelayMS > maxHang.Milliseconds(), "delay_ms is negative or above the hang limit")
	refuse(s.delayMS && f.DelayMS == 0, "delay_ms is missing")
	refuse(!redirect && f.Status != 0 && (f.Status < 200 || f.Status > 599 || http.StatusText(f.Status) == ""),
		"status is not an HTTP status of 200 to 599")
	refuse(redirect && !slices.Contains([]int{0, 301, 302, 303, 307, 308}, f.Status), "status is not a redirect")
	refuse(f.Bytes < 0 || f.Bytes > 16<<30, "bytes is not within 0 and 16 GiB")
	refuse(f.Times < 0 || f.Times > 100, "times is not within 0 and 100")
	refuse(f.Answer != "" && f.Answer != "NOT_FOUND" && f.Answer != "IN_PROGRESS",
		"answer is not NOT_FOUND or IN_PROGRESS")
	noPayment := f.Match.KeyPrefix != "" || f.Match.ReferencePrefix != "" || f.Match.Creditor != ""
	refuse(s.stage == stageConn && noPayment, "a connection can only be matched by nth")
	refuse((s.stage == stageSettle || s.stage == stageCallback) && f.Match.Nth != 0, "nth does not apply to this kind")
	if _, err := url.Parse(f.URL); err != nil {
		errs = append(errs, fmt.Errorf("url: %w", err))
	}
	refuse(s.url && f.URL == "", "url is missing")
	return errors.Join(errs...)
}
