package callback_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/secret"
)

var (
	noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	id   = payment.ID{1, 2, 3, 6: 0x70, 8: 0x80, 15: 9}
)

// The secrets, in the form in which they are kept.
const (
	newSecret   = "whsec_bmV3IHNlY3JldCBvZiB0aGUgYmFuaw=="
	oldSecret   = "b2xkIHNlY3JldCBvZiB0aGUgYmFuaw=="
	otherSecret = "whsec_c2VjcmV0IG9mIGFub3RoZXIgYmFuaw=="
)

func config() callback.Config {
	return callback.Config{
		Secrets: []secret.Ref{ref("env:NEW"), ref("env:OLD")}, Key: "data.key", Status: "data.status",
		Statuses:  map[string]payment.Result{"SETTLED": payment.ResultExecuted, "REJECTED": payment.ResultRefused},
		Reference: "data.id", Code: "data.code",
	}
}

func ref(text string) secret.Ref {
	var r secret.Ref
	if err := r.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return r
}

func getenv(name string) string { return map[string]string{"NEW": newSecret, "OLD": oldSecret}[name] }

func table(t testing.TB) *codes.Table {
	t.Helper()
	found, err := codes.Named("iso20022")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func open(t testing.TB) *callback.Reader {
	t.Helper()
	reader, err := callback.Open(config(), table(t), getenv, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// header signs a body as the given secrets would, with one signature each.
func header(t testing.TB, event string, at time.Time, body string, secrets ...string) http.Header {
	t.Helper()
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, each := range secrets {
		signatures = append(signatures, "v1,"+mac(t, each, event+"."+stamp+"."+body))
	}
	return http.Header{
		"Webhook-Id": {event}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {strings.Join(signatures, " ")},
	}
}

func body(status string) string { return bodyWith(status, "0") }

func bodyWith(status, code string) string {
	return `{"data": {"key": "` + payment.RailKey(id) + `", "status": "` + status + `", "id": "RS1", "code": "` + code + `"}}`
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	settled := body("SETTLED")
	signed := header(t, "evt_1", noon, settled, newSecret)
	with := func(name, value string) http.Header {
		changed := signed.Clone()
		changed.Set(name, value)
		return changed
	}
	many := make([]string, 11)
	for n := range many {
		many[n] = otherSecret
	}
	for what, c := range map[string]struct {
		header http.Header
		body   string
		taken  bool
	}{
		"right":                             {signed, settled, true},
		"by the secret before the new one":  {header(t, "evt_1", noon, settled, oldSecret), settled, true},
		"by two, ours last":                 {header(t, "evt_1", noon, settled, otherSecret, newSecret), settled, true},
		"with a version that we don't know": {with("webhook-signature", "v2,x v1,!! "+signed.Get("webhook-signature")), settled, true},
		"almost too old":                    {header(t, "evt_1", noon.Add(-5*time.Minute), settled, newSecret), settled, true},
		"almost too early":                  {header(t, "evt_1", noon.Add(5*time.Minute), settled, newSecret), settled, true},
		"by another secret":                 {header(t, "evt_1", noon, settled, otherSecret), settled, false},
		"by no secret":                      {with("webhook-signature", ""), settled, false},
		"without a version":                 {with("webhook-signature", strings.TrimPrefix(signed.Get("webhook-signature"), "v1,")), settled, false},
		"cut short":                         {with("webhook-signature", signed.Get("webhook-signature")[:20]), settled, false},
		"empty":                             {with("webhook-signature", "v1,"), settled, false},
		"by ours, the eleventh":             {header(t, "evt_1", noon, settled, append(many[:10], newSecret)...), settled, false},
		"of another body":                   {signed, body("REJECTED"), false},
		"of a body with a space more":       {signed, settled + " ", false},
		"of another event":                  {with("webhook-id", "evt_2"), settled, false},
		"of another time":                   {with("webhook-timestamp", strconv.FormatInt(noon.Unix()+1, 10)), settled, false},
		"too old":                           {header(t, "evt_1", noon.Add(-5*time.Minute-time.Second), settled, newSecret), settled, false},
		"too early":                         {header(t, "evt_1", noon.Add(5*time.Minute+time.Second), settled, newSecret), settled, false},
		"without a time":                    {with("webhook-timestamp", ""), settled, false},
		"with a time that is none":          {with("webhook-timestamp", "noon"), settled, false},
		"without an event":                  {header(t, "", noon, settled, newSecret), settled, false},
		"with a long event":                 {header(t, strings.Repeat("e", 201), noon, settled, newSecret), settled, false},
	} {
		event, err := open(t).Read(c.header, []byte(c.body))
		switch {
		case c.taken && (err != nil || event.ID != "evt_1" || event.RailKey != id):
			t.Errorf("%s: %+v, %v", what, event, err)
		case !c.taken && (!errors.Is(err, callback.ErrUnsigned) || event != callback.Event{}):
			t.Errorf("%s: %+v, %v; want it refused as unsigned", what, event, err)
		}
	}
}

// TestSignatureVector uses the vector that the libraries of the scheme share.
func TestSignatureVector(t *testing.T) {
	t.Parallel()
	got := mac(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}`)
	if want := "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	key := `"key": "` + payment.RailKey(id) + `"`
	const unmapped = "its word is none of callback.statuses"
	for text, want := range map[string]*callback.Event{
		body("SETTLED"): {ID: "evt_1", RailKey: id, Result: payment.ResultExecuted, Reference: "RS1", Code: "0"},
		bodyWith("REJECTED", "AC04"): {ID: "evt_1", RailKey: id, Result: payment.ResultRefused, Reference: "RS1",
			Code: "AC04"},
		// Words that are not listed prove nothing final.
		body("PENDING"): {ID: "evt_1", RailKey: id, Reference: "RS1", Code: "0", Unmapped: true, Doubt: unmapped},
		body("settled"): {ID: "evt_1", RailKey: id, Reference: "RS1", Code: "0", Unmapped: true, Doubt: unmapped},
		body("ACSC"):    {ID: "evt_1", RailKey: id, Reference: "RS1", Code: "0", Unmapped: true, Doubt: unmapped},
		`{"data": {` + key + `, "status": "SETTLED"}}`: {ID: "evt_1", RailKey: id, Result: payment.ResultExecuted},
		`{"data": {` + key + `, "status": "SETTLED", "id": 7}}`: {ID: "evt_1", RailKey: id, Result: payment.ResultExecuted,
			Reference: "7"},
		// A value that is not plain proves nothing and is left out.
		`{"data": {` + key + `, "status": "SETTLED", "id": "a\u0000b", "code": "x\u0007y"}}`: {ID: "evt_1", RailKey: id,
			Result: payment.ResultExecuted},
		`{"data": {"status": "SETTLED"}}`:                           nil,
		`{"data": {` + key + `}}`:                                   nil,
		`{"data": {"key": "another-sender", "status": "SETTLED"}}`:  nil,
		`{"data": {` + key + `, ` + key + `, "status": "SETTLED"}}`: nil,
		`{"data": {` + key + `, "status": "SETTLED"}} {}`:           nil,
		`{"data": {` + key + `, "status": "SETTLED"}`:               nil,
		`[]`: nil,
		``:   nil,
	} {
		event, err := open(t).Read(header(t, "evt_1", noon, text, newSecret), []byte(text))
		switch {
		case want == nil && !errors.Is(err, callback.ErrUnreadable):
			t.Errorf("%s: %+v, %v; want it refused as unreadable", text, event, err)
		case want != nil && (err != nil || event != *want):
			t.Errorf("%s:\n got %+v, %v\nwant %+v", text, event, err, *want)
		}
	}
}

// TestNews tests what a word and a code prove together. Only executed and refused are final; a word
// with one of these meanings that proves nothing comes with the reason.
func TestNews(t *testing.T) {
	t.Parallel()
	c := config()
	c.Statuses = map[string]payment.Result{
		"SETTLED": payment.ResultExecuted, "REJECTED": payment.ResultRefused, "RJCT": codes.ReportedByCode,
		"PDNG": payment.ResultInProgress, "LOST": payment.ResultNotFound,
	}
	reader, err := callback.Open(c, table(t), getenv, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		word, code string
		want       payment.Result
		doubted    bool
	}{
		{"RJCT", "AC04", payment.ResultRefused, false},
		{"RJCT", "ACSC", "", true},
		{"RJCT", "AG09", "", false},
		{"RJCT", "AM04", "", true},
		{"RJCT", "G000", "", true},
		{"RJCT", "NARR", "", true},
		{"RJCT", "AM05", "", true},
		{"RJCT", "XX99", "", true},
		{"RJCT", "", "", true},
		{"REJECTED", "AC04", payment.ResultRefused, false},
		{"REJECTED", "AM04", payment.ResultRefused, false},
		{"REJECTED", "AG09", "", true},
		{"REJECTED", "NARR", "", true},
		{"REJECTED", "XX99", payment.ResultRefused, false},
		{"REJECTED", "", payment.ResultRefused, false},
		{"SETTLED", "AC04", "", true},
		{"SETTLED", "", payment.ResultExecuted, false},
		{"PDNG", "ACSC", "", false},
		{"LOST", "AG09", "", false},
	} {
		text := bodyWith(test.word, test.code)
		event, err := reader.Read(header(t, "evt_1", noon, text, newSecret), []byte(text))
		if err != nil || event.Result != test.want || (event.Doubt != "") != test.doubted || event.Code != test.code {
			t.Errorf("%s %s: %+v, %v; want %q, doubted %v", test.word, test.code, event, err, test.want, test.doubted)
		}
	}
}

// TestCodeThatCannotBeUsed tests that a code which is there and can't be stored is one that no table lists, a blank one
// none, and that a word may be true or false.
func TestCodeThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	c := config()
	c.Statuses = map[string]payment.Result{"REJECTED": payment.ResultRefused, "RJCT": codes.ReportedByCode,
		"true": payment.ResultExecuted, codes.Unusable: payment.ResultExecuted}
	reader, err := callback.Open(c, table(t), getenv, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	const cantBeUsed, none = "its code can't be used", "refers to a code and has none"
	for code, doubt := range map[string]string{
		`"AC04\t"`: cantBeUsed, `["AC04"]`: cantBeUsed, `{"value":"AC04"}`: cantBeUsed, `true`: cantBeUsed,
		`"` + strings.Repeat("d", 65) + `"`: cantBeUsed, `""`: none, `" "`: none, `[]`: none, `{}`: none, `false`: none,
		`null`: none, `"AC04"`: "",
	} {
		for word, want := range map[string]payment.Result{`"RJCT"`: "", `"REJECTED"`: payment.ResultRefused} {
			text := `{"data": {"key": "` + payment.RailKey(id) + `", "status": ` + word + `, "code": ` + code + `}}`
			event, err := reader.Read(header(t, "evt_1", noon, text, newSecret), []byte(text))
			doubted := doubt
			if word == `"REJECTED"` {
				doubted = ""
			}
			if doubt == "" {
				want = payment.ResultRefused
			}
			if err != nil || event.Result != want || !strings.Contains(event.Doubt, doubted) ||
				(event.Doubt != "") != (doubted != "") || event.Code != map[bool]string{true: "AC04"}[doubt == ""] {
				t.Errorf("%s: %+v, %v, want %q, doubt %q", text, event, err, want, doubted)
			}
		}
	}
	for word, want := range map[string]payment.Result{
		"true": payment.ResultExecuted, "false": "", `"` + codes.Unusable + `"`: "",
	} {
		text := `{"data": {"key": "` + payment.RailKey(id) + `", "status": ` + word + `}}`
		event, err := reader.Read(header(t, "evt_1", noon, text, newSecret), []byte(text))
		if err != nil || event.Result != want || event.Unmapped != (word == "false") {
			t.Errorf("%s: %+v, %v", text, event, err)
		}
	}
}

// TestPartsOfASignatureStay moves the dots of what is signed: to no other event may the same signature belong.
func TestPartsOfASignatureStay(t *testing.T) {
	t.Parallel()
	reader := open(t)
	text := body("REJECTED")
	signed := header(t, "pay.4711.refused", noon, text, newSecret)
	if event, err := reader.ReadKept(signed, []byte(text)); err != nil || event.ID != "pay.4711.refused" {
		t.Fatalf("as signed: %+v, %v", event, err)
	}
	stamp := signed.Get("webhook-timestamp")
	for _, moved := range []struct{ id, stamp, body string }{
		{"pay", "4711.refused." + stamp, text}, {"pay.4711", "refused." + stamp, text},
		{"pay", "4711", "refused." + stamp + "." + text}, {"pay.4711.refused." + stamp, "", text},
		{"pay.4711.refused", "+" + stamp, text}, {"pay.4711.refused", "-" + stamp, text},
	} {
		again := signed.Clone()
		again.Set("webhook-id", moved.id)
		again.Set("webhook-timestamp", moved.stamp)
		for how, read := range map[string]func(http.Header, []byte) (callback.Event, error){
			"kept": reader.ReadKept, "sent": reader.Read,
		} {
			if event, err := read(again, []byte(moved.body)); err == nil {
				t.Errorf("%s as id %q at %q: %+v", how, moved.id, moved.stamp, event)
			}
		}
	}
}

// TestUnmappedWord reads a word that the rail has and its file has not.
func TestUnmappedWord(t *testing.T) {
	t.Parallel()
	text := body("DONE")
	event, err := open(t).Read(header(t, "evt_1", noon, text, newSecret), []byte(text))
	if err != nil || !event.Unmapped || event.Result != "" || event.Doubt == "" || strings.Contains(event.Doubt, "DONE") {
		t.Errorf("got %+v, %v", event, err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*callback.Config){
		"secrets are 0":       func(c *callback.Config) { c.Secrets = nil },
		"secrets are 5":       func(c *callback.Config) { c.Secrets = make([]secret.Ref, 5) },
		"secrets.1 is empty":  func(c *callback.Config) { c.Secrets[1] = secret.Ref{} },
		"key is missing":      func(c *callback.Config) { c.Key = "" },
		"status and statuses": func(c *callback.Config) { c.Statuses = nil },
		"statuses.SETTLED":    func(c *callback.Config) { c.Statuses["SETTLED"] = payment.ResultAccepted },
		"statuses.CODED is":   func(c *callback.Config) { c.Statuses["CODED"], c.Code = codes.ReportedByCode, "" },
		"env:ELSEWHERE":       func(c *callback.Config) { c.Secrets[0] = ref("env:ELSEWHERE") },
		"env:SHORT":           func(c *callback.Config) { c.Secrets[0] = ref("env:SHORT") },
		"env:PLAIN":           func(c *callback.Config) { c.Secrets[0] = ref("env:PLAIN") },
	} {
		spoilt := config()
		spoil(&spoilt)
		_, err := callback.Open(spoilt, table(t), func(name string) string {
			return map[string]string{"NEW": newSecret, "OLD": oldSecret, "SHORT": "dG9vIHNob3J0",
				"PLAIN": "not base64, and long enough"}[name]
		}, time.Now)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && strings.Contains(err.Error(), "not base64, and") {
			t.Errorf("%s: the secret is told: %v", what, err)
		}
	}
}

// FuzzRead reads arbitrary input. Nothing is accepted without a signature, and what is signed is
// read or refused as a whole.
func FuzzRead(f *testing.F) {
	for _, text := range []string{body("SETTLED"), body("REJECTED"), body("?"), `{"data":{"key":1,"status":[]}}`, `{`,
		"\xff", strings.Repeat("[", 100)} {
		f.Add("evt_1", strconv.FormatInt(noon.Unix(), 10), "v1,AAAA v1a,x", []byte(text))
	}
	f.Fuzz(func(t *testing.T, event, stamp, signature string, text []byte) {
		reader := open(t)
		got, err := reader.Read(http.Header{
			"Webhook-Id": {event}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature},
		}, text)
		if !errors.Is(err, callback.ErrUnsigned) || got != (callback.Event{}) {
			t.Fatalf("taken without a signature: %+v, %v", got, err)
		}
		got, err = reader.Read(header(t, "evt_1", noon, string(text), oldSecret), text)
		switch {
		case err != nil && (!errors.Is(err, callback.ErrUnreadable) || got != (callback.Event{})):
			t.Fatalf("refused by halves: %+v, %v", got, err)
		case err == nil && (got.ID != "evt_1" || got.RailKey.IsZero() || len(got.Reference) > 256 || len(got.Code) > 64):
			t.Fatalf("read as %+v", got)
		}
	})
}

// decode gives the bytes of a secret.
func decode(t testing.TB, text string) []byte {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
