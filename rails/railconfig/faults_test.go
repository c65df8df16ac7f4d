package railconfig_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// TestEveryFaultAtOnce: contradictions and typing errors of all parts of a file
// come together, each with its line.
func TestEveryFaultAtOnce(t *testing.T) {
	const text = `rails:
  - rail_type: bank
    adapter: http
    profile:
      version: 3
      key_windw: 24h
      resend_on_unknown: SAME_KEY
      retry: {max_sends: 50}
      timeouts:
        connect: 9h
      checks:
        fields:
          - {field: creditor.iban, rule: IBAN}
          - {field: creditor.bic, rule: BICC}
    http:
      base_url: http://bank.example
      send:
        path: payments
        body: {reference: railkey}
        response: {status: status, statuses: {OK: YES}}
  - rail_type: bank
    adapter: smoke
  - rail_type: Other
    adapter: noop
  - adapter: http
`
	_, err := railconfig.Parse([]byte(text), nil)
	if !errors.Is(err, railconfig.ErrBadFile) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"line 5: rails.0.profile.version", "line 6: rails.0.profile.key_windw is not known",
		"line 7: rails.0.profile.resend_on_unknown",
		"line 8: rails.0.profile.retry.max_sends", "line 10: rails.0.profile.timeouts.connect",
		"line 14: rails.0.profile.checks.fields[1]",
		"line 16: rails.0.http.base_url", "line 18: rails.0.http.send.path", "line 19: rails.0.http.send.body",
		"line 20: rails.0.http.send.response.statuses.OK", "line 21: rails.1.rail_type", "line 22: rails.1.adapter",
		"line 23: rails.2.rail_type", "line 24: rails.2.adapter is noop", "line 25: rails.3.rail_type",
		"line 25: rails.3.http is missing",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

// TestProfileAgainstEndpoint: what a profile counts on and its endpoint can't do is
// refused before it is put in force, with every other fault; a process that sends goes
// by the profile in force, and reads the same file.
func TestProfileAgainstEndpoint(t *testing.T) {
	const search = "code: errorCode}\n      inquiry:\n        method: POST\n        path: /transfers/search\n        " +
		"body: {key: rail_key}"
	for _, c := range []struct {
		what, old, new string
		at, want       string // the line that it is found at, and the fault
	}{
		{"asked without a request", "      inquiry:\n        method: POST", "      unknown:\n        method: POST",
			"inquiry: {not_before: 25s", "rails.1.profile.inquiry.max is 20 but http.inquiry"},
		{"a request without inquiries", "max: 20, not_found: INCONCLUSIVE}", "not_found: INCONCLUSIVE}",
			"inquiry:\n        method: POST", "rails.1.http.inquiry says how to ask"},
		{"by reference, and FINAL", "/payments/by-key/{rail_key}", "/payments/{reference}",
			"inquiry:\n        method: GET", "rails.0.http.inquiry asks by reference but acceptance is FINAL"},
		{"by reference", "body: {key: rail_key}", "body: {key: reference}", "", ""},
		{"by a reference that is not read", "reference: transferId, " + search,
			strings.Replace(search, "rail_key", "reference", 1),
			"inquiry:\n        method: POST", "rails.1.http.inquiry asks by reference but http.send.response.reference"},
		{"by what two participants may share", "/payments/by-key/{rail_key}", "/payments/{instruction_id}",
			"inquiry:\n        method: GET", "rails.0.http.inquiry asks by instruction_id, which payments of two participants"},
		{"an echo of it", "echo: reference\n          echo_is: rail_key\n      inquiry", "echo: reference\n          " +
			"echo_is: instruction_id\n      inquiry", "echo_is: instruction_id",
			"rails.0.http.send.response.echo_is is instruction_id"},
	} {
		text := strings.Replace(railconfig.Example(), c.old, c.new, 1)
		if text == railconfig.Example() {
			t.Fatalf("%s: the example has no %q", c.what, c.old)
		}
		path := filepath.Join(t.TempDir(), "rails.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := railconfig.LoadProfiles(path, nil)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "":
			before, _, _ := strings.Cut(text, c.at)
			want := fmt.Sprintf("line %d: %s", 1+strings.Count(before, "\n"), c.want)
			if !errors.Is(err, railconfig.ErrBadFile) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in\n%v", c.what, want, err)
			}
		}
		if _, err := railconfig.Load(path, nil); err != nil && !strings.Contains(c.new, "unknown") {
			t.Errorf("%s: a process that sends does not read the file: %v", c.what, err)
		}
	}
}

// loadProfiles loads the text as a file whose profiles are to be put in force.
func loadProfiles(t *testing.T, text string) (railconfig.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rails.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return railconfig.LoadProfiles(path, nil)
}

// TestCheckedProfileCanBeRead: what is put in force can be read back. The bounds hold for what is stored, with the
// paths that are added from the body.
func TestCheckedProfileCanBeRead(t *testing.T) {
	wide := func(paths int, name string) string {
		var body strings.Builder
		for n := range paths {
			fmt.Fprintf(&body, ", f%d: payload.f%d", n, n)
		}
		return fmt.Sprintf(`rails:
  - rail_type: %s
    adapter: http
    profile: {acceptance: FINAL}
    http:
      base_url: https://bank.example
      send:
        path: /payments
        body: {reference: rail_key, amount: amount.decimal, currency: currency%s}
        response: {status: status, statuses: {EXECUTED: OK}, reference: id}
`, name, body.String())
	}
	var codes []string
	for n := range 30000 {
		codes = append(codes, fmt.Sprintf("Q%07d: T", n))
	}
	long := strings.Replace(wide(1, "long"), "FINAL}", "FINAL, codes: {overrides: {"+strings.Join(codes, ", ")+"}}}", 1)
	for name, test := range map[string]struct{ text, want string }{
		"100 paths":       {wide(100, "wide"), ""},
		"101 paths":       {wide(101, "wide"), "line 4: rails.0.profile could be read by no relayer once it is stored"},
		"its bound":       {wide(101, "wide"), "checks.required has 101 paths, more than 100"},
		"too long":        {long, "longer than 262144 bytes"},
		"one fault alone": {strings.Replace(wide(101, "wide"), "FINAL", "FINALLY", 1), "profile.acceptance is"},
	} {
		file, err := loadProfiles(t, test.text)
		if test.want != "" {
			if !errors.Is(err, railconfig.ErrBadFile) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %.300v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		stored, err := file.Rails[0].Profile.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rails.ParseProfile(stored); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHeaderOfAdapters: a header that adapters set themselves is refused when a profile is put in force. A profile with
// it that is in force is read, and its message has the header once.
func TestHeaderOfAdapters(t *testing.T) {
	const listed = "headers: [x-tenant, content-type]"
	text := strings.Replace(railconfig.Example(), "headers: [x-tenant]", listed, 1)
	before, _, _ := strings.Cut(text, listed)
	want := fmt.Sprintf("line %d: rails.2.profile.headers has \"content-type\"", 1+strings.Count(before, "\n"))
	if _, err := loadProfiles(t, text); !errors.Is(err, railconfig.ErrBadFile) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	file, err := railconfig.Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	profile := file.Rails[2].Profile
	got := profile.Carried([]byte(`{"Content-Type": "text/html", "x-tenant": "a"}`))
	if len(got) != 1 || got["x-tenant"] != "a" {
		t.Errorf("carried: %v", got)
	}
}

func TestLoadNeedsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rails.yaml")
	if err := os.WriteFile(path, []byte(example(t, "http://127.0.0.1:1")), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := railconfig.Load(path, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	profile, err := file.Rails[0].Profile.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, private := range []string{"127.0.0.1", "BANK_TOKEN", "Idempotency", "http://"} {
		if strings.Contains(string(profile), private) {
			t.Errorf("%s would go to the database", private)
		}
	}
	if _, err := railconfig.Open(file.Rails[0], file.Rails[0].Profile); err == nil ||
		!strings.Contains(err.Error(), "env:BANK_TOKEN") {
		t.Errorf("a missing secret: %v", err)
	}
	for _, missing := range []string{filepath.Join(t.TempDir(), "none.yaml"), t.TempDir()} {
		if _, err := railconfig.Load(missing, nil); !errors.Is(err, railconfig.ErrBadFile) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// TestNoLiteralSecrets, and the refusal does not repeat them.
func TestNoLiteralSecrets(t *testing.T) {
	for _, change := range []string{"bearer: hunter2-token", "headers: {Authorization: Bearer hunter2-token}",
		"headers: {X-Api-Key: hunter2-token}"} {
		text := strings.Replace(example(t, "http://127.0.0.1:1"), "bearer: env:BANK_TOKEN", change, 1)
		text = strings.Replace(text, "      headers: {X-Client: railhead-1}\n", "", 1)
		_, err := railconfig.Parse([]byte(text), env)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", change, err)
		}
	}
}

func TestNoop(t *testing.T) {
	const text = "allow_noop: true\nrails:\n  - {rail_type: noop, adapter: noop}\n"
	file, err := railconfig.Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := railconfig.Open(file.Rails[0], file.Rails[0].Profile); err != nil {
		t.Error(err)
	}
	if _, err := railconfig.Open(file.Rails[0], rails.Profile{RailType: "other"}.WithDefaults()); err == nil {
		t.Error("another rail's profile")
	}
	for _, config := range []railconfig.RailConfig{
		{RailType: "noop", Adapter: "noop"}, {RailType: "noop", Adapter: "http"}, {RailType: "noop", Adapter: "smoke"},
	} {
		if _, err := railconfig.Open(config, rails.Profile{RailType: "noop"}.WithDefaults()); err == nil {
			t.Errorf("%s that no file allowed", config.Adapter)
		}
	}
	if _, err := railconfig.Parse([]byte(strings.Replace(text, "allow_noop: true\n", "", 1)), nil); err == nil {
		t.Error("noop without leave")
	}
	if _, err := railconfig.Parse([]byte("rails: []\n"), nil); err == nil {
		t.Error("a file without rails")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example(f, "http://127.0.0.1:1")))
	f.Add([]byte("allow_noop: true\nrails:\n  - {rail_type: noop, adapter: noop}\n"))
	f.Add([]byte("rails:\n  - {rail_type: a, adapter: http, http: {base_url: \"https://\\x00\"}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := railconfig.Parse(text, env)
		if err != nil {
			return
		}
		for _, config := range file.Rails {
			stored, err := config.Profile.JSON()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rails.ParseProfile(stored); err != nil {
				t.Errorf("a profile of an accepted file is refused when it comes back: %v", err)
			}
		}
	})
}

// TestRepliesFaults: two rails that would take each other's callbacks, callbacks that nothing reads, and a stream that
// has the payments are refused.
func TestRepliesFaults(t *testing.T) {
	const rail = `
  - rail_type: %s
    adapter: nats
    profile: {acceptance: FINAL, kind: message}
    nats: {servers: ["tls://n.example:4222"], stream: PAYMENTS, subject: "p.{participant_id}", replies: %s}
`
	const read = `    callback: {secrets: ["env:S"], key: key, status: status, statuses: {DONE: EXECUTED}}
`
	const topic = `
  - rail_type: %s
    adapter: kafka
    profile: {acceptance: FINAL, kind: message}
    kafka: {servers: ["tls://k.example:9093"], topic: payments, partitions: 4, replies: {topic: %s, group: %s}}
`
	records := fmt.Sprintf(topic, "one", "replies", "a")
	at := func(stream, consumer string) string {
		return fmt.Sprintf(`{stream: %s, consumer: %s}`, stream, consumer)
	}
	one := fmt.Sprintf(rail, "one", at("REPLIES", "a")) + read
	for _, c := range []struct{ text, want string }{
		{one + fmt.Sprintf(rail, "two", at("REPLIES", "b")) + read, ""},
		{one + fmt.Sprintf(rail, "two", at("REPLIES", "a")) + read, "rails.1.nats.replies is that of rails.0 too"},
		{fmt.Sprintf(rail, "one", at("REPLIES", "a")), "nats.replies is given but callback is missing"},
		{fmt.Sprintf(rail, "one", at("PAYMENTS", "a")) + read, "replies.stream is \"PAYMENTS\", the stream of the payments"},
		{fmt.Sprintf(rail, "one", at("RE.PLIES", "a>")) + read, "replies.consumer is \"a>\""},
		{records + read + fmt.Sprintf(topic, "two", "others", "b") + read, ""},
		{records + read + fmt.Sprintf(topic, "two", "replies", "b") + read, "rails.1.kafka.replies is that of rails.0 too"},
		{records + read + fmt.Sprintf(topic, "two", "others", "a") + read, "rails.1.kafka.replies is that of rails.0 too"},
		{records, "kafka.replies is given but callback is missing"},
		{fmt.Sprintf(topic, "one", "payments", "a") + read, "replies.topic is \"payments\", the topic of the payments"},
	} {
		_, err := railconfig.Parse([]byte("rails:"+c.text), nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s\n%v, want %q", c.text, err, c.want)
		}
	}
}
