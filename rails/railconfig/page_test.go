package railconfig_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/rails.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPageExamples: every YAML block of docs/rails.md is a file that railhead rail
// apply accepts, and the complete one is what railhead rail example prints.
func TestPageExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?s)\n```yaml\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	complete := false
	for n, block := range blocks {
		path := filepath.Join(t.TempDir(), "rails.yaml")
		if err := os.WriteFile(path, []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := railconfig.LoadProfiles(path, nil); err != nil {
			t.Errorf("block %d: %v", n, err)
		}
		complete = complete || block[1] == railconfig.Example()
	}
	if !complete {
		t.Error("docs/rails.md has no block that is rails/railconfig/example.yaml, word for word")
	}
}

// TestExampleIsComplete: the example has every field that a file may have.
func TestExampleIsComplete(t *testing.T) {
	var document map[string]any
	if err := yaml.Unmarshal([]byte(railconfig.Example()), &document); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	var walk func(value any, path string)
	walk = func(value any, path string) {
		has[path] = true
		switch value := value.(type) {
		case map[string]any:
			for key, member := range value {
				walk(member, strings.TrimPrefix(path+"."+key, "."))
				walk(member, path+".*")
			}
		case []any:
			for _, member := range value {
				walk(member, path+"[]")
			}
		}
	}
	walk(decoded, "")
	// The rail's name is given once, and the database numbers the versions.
	never := []string{
		"profile.rail_type", "profile.version", "nats.domain", "nats.token", "nats.user", "nats.password",
	}
	for path := range fields() {
		in := path
		if path != "allow_noop" && path != "rails" {
			in = "rails[]." + path
		}
		if has[in] == slices.Contains(never, path) {
			t.Errorf("%s: in the example %v", path, has[in])
		}
	}
}

// row is a row of a table of fields on the page.
type row struct{ kind, standard, bounds string }

// rows reads the tables of fields.
func rows(t *testing.T, text string) map[string]row {
	t.Helper()
	all, inTable := map[string]row{}, false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "| field | type | default |"):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.TrimSpace(line), "|") // the first and the last are empty
			if len(cells) != 7 {
				t.Errorf("%d columns: %s", len(cells)-2, line)
				continue
			}
			name := strings.Trim(cells[1], " `")
			if _, twice := all[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			all[name] = row{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])}
		}
	}
	return all
}

// TestPageFields: docs/rails.md has a row for every field that a file can have, and no
// other; its type and default are those of the code.
func TestPageFields(t *testing.T) {
	listed, known := rows(t, page(t)), fields()
	for _, path := range slices.Sorted(maps.Keys(known)) {
		f := known[path]
		r, ok := listed[path]
		if !ok {
			t.Errorf("docs/rails.md has no row for %s", path)
			continue
		}
		if r.kind != f.kind {
			t.Errorf("%s is of type %q, the page says %q", path, f.kind, r.kind)
		}
		said := ""
		if quoted := regexp.MustCompile("^`([^`]*)`").FindStringSubmatch(r.standard); quoted != nil && quoted[1] != "0" {
			said = quoted[1]
		}
		if said != f.standard {
			t.Errorf("the default of %s is %q, the page says %q", path, f.standard, r.standard)
		}
		if r.standard == "" {
			t.Errorf("%s: the page has no word for its default, such as none or required", path)
		}
	}
	for path := range listed {
		if _, ok := known[path]; !ok {
			t.Errorf("docs/rails.md has a row for %s, which is no field", path)
		}
	}
}

// notFields are what the page writes as code, with the form of a field, and is none.
var notFields = []string{
	// sources of a body and names of path variables
	"instruction_id", "participant_id", "rail_key", "amount.decimal", "amount.trimmed", "amount.minor",
	"amount.minor_text", "amount.number", "payload.amount", "payload.currency",
	// values, paths into documents and files
	"timestamp.body", "creditor.iban", "items.0.id", "result.20022.state", "data.0.status", "data.0.reference",
	"0.status", "rails.yaml",
	// settings of the cell
	"start_within", "record_within", "claim_timeout", "allow_second_key", "payment_outbox_settings",
	// settings of a stream and of its servers
	"persist_mode", "num_replicas", "max_msgs", "max_bytes", "max_msgs_per_subject", "discard_new_per_subject", "max_age",
	"duplicate_window", "max_msg_size", "max_payload", "subject_transform", "no_ack", "allow_rollup_hdrs",
	"allow_msg_counter", "allow_msg_ttl", "result.2022.state", "sync_interval", "handshake_first",
	// settings of a consumer, and what callbacks are counted as
	"ack_policy", "deliver_policy", "replay_policy", "priority_policy", "max_deliver", "max_ack_pending", "headers_only",
	"inactive_threshold", "ack_wait", "mem_storage", "not_ours", "not_read", "not_recorded",
	// settings of brokers
	"offsets.retention.minutes", "transaction.max.timeout.ms",
	// settings of a topic
	"cleanup.policy", "compression.type", "flush.messages", "max.message.bytes", "message.timestamp.type",
	"min.insync.replicas", "retention.bytes", "retention.ms", "segment.bytes", "unclean.leader.election.enable",
	// the number and the end of an instruction, a role, a view and metrics
	"sequence_id", "expires_at",
	"railhead_operator", "v_order_heads", "railhead_order_blocked_heads", "railhead_reaper_unread_profiles",
	"railhead_lane_held",
	// what a line of the log says
	"not_logged",
}

// TestPageNames: what the prose of docs/rails.md writes like a field is one.
func TestPageNames(t *testing.T) {
	known := slices.Collect(maps.Keys(fields()))
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page(t), "")
	used := 0
	named := regexp.MustCompile("`([a-z][a-z0-9]*(?:(?:_|\\.|\\[\\]\\.|\\.\\*\\.)[a-z0-9]+)+)`")
	for _, found := range named.FindAllStringSubmatch(prose, -1) {
		name := found[1]
		isField := slices.ContainsFunc(known, func(path string) bool {
			return path == name || strings.HasSuffix(path, "."+name) || strings.HasPrefix(path, name+".")
		})
		// A section of the profile or of http, such as retry.
		isField = isField || slices.ContainsFunc(known,
			func(path string) bool { return strings.Contains(path, "."+name+".") })
		if !isField && !slices.Contains(notFields, name) {
			t.Errorf("docs/rails.md speaks of %s, which is no field", name)
		}
		used++
	}
	if used < len(known) {
		t.Errorf("%d names found, of %d fields", used, len(known))
	}
}

// TestPageBounds tries the bounds that the page gives as two values: each is accepted,
// and what lies beyond is refused with the name of the field.
func TestPageBounds(t *testing.T) {
	known, tried := fields(), 0
	between := regexp.MustCompile("^`([^`]+)` to `([^`]+)`")
	for path, r := range rows(t, page(t)) {
		bounds := between.FindStringSubmatch(r.bounds)
		if bounds == nil {
			continue
		}
		tried++
		for n, bound := range bounds[1:] {
			inside, outside := beyond(t, known[path], bound, n == 1)
			// Another field may contradict the value; this one must not be out of bounds.
			if err := with(t, path, inside); err != nil &&
				regexp.MustCompile(regexp.QuoteMeta(path)+` is \S+, must be `).MatchString(err.Error()) {
				t.Errorf("%s %v is refused: %v", path, inside, err)
			}
			if err := with(t, path, outside); err == nil || !strings.Contains(err.Error(), "."+path+" ") {
				t.Errorf("%s %v is not refused: %v", path, outside, err)
			}
		}
	}
	if tried < 15 {
		t.Errorf("only %d bounds", tried)
	}
}

// beyond reads a bound, and gives what lies just outside of it.
func beyond(t *testing.T, f field, text string, upper bool) (inside, outside any) {
	t.Helper()
	step := map[bool]int{false: -1, true: 1}[upper]
	if f.kind == "duration" {
		span, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return text, (span + time.Duration(step)*time.Microsecond).String()
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	if f.kind == "number" {
		return number, number + float64(step)/8
	}
	if number == 1 && !upper {
		step = -2 // 0 counts as left out
	}
	return int(number), int(number) + step
}

// with is what LoadProfiles says of the example with another value in its first or
// second rail, whichever has the field.
func with(t *testing.T, path string, value any) error {
	t.Helper()
	var document map[string]any
	if err := yaml.Unmarshal([]byte(railconfig.Example()), &document); err != nil {
		t.Fatal(err)
	}
	keys := strings.Split(path, ".")
	for _, rail := range document["rails"].([]any) {
		at, ok := rail.(map[string]any)
		for _, key := range keys[:len(keys)-1] {
			if ok {
				at, ok = at[key].(map[string]any)
			}
		}
		if _, there := at[keys[len(keys)-1]]; !ok || !there {
			continue
		}
		at[keys[len(keys)-1]] = value
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "rails.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = railconfig.LoadProfiles(file, nil)
		return err
	}
	t.Fatalf("the example has no %s", path)
	return nil
}

// TestPagePaths tries what is no path in each field of which the page says that it is one: it is refused with the name
// of the field, whatever the section.
func TestPagePaths(t *testing.T) {
	tried := 0
	for path, r := range rows(t, page(t)) {
		if r.kind != "text" || !regexp.MustCompile(`^a path\b`).MatchString(r.bounds) || strings.Contains(path, "[]") {
			continue
		}
		tried++
		for _, no := range []string{"a..b", ".", "a.+0.b", "-1", "data. 0", "a.", strings.Repeat("a", 201)} {
			if err := with(t, path, no); err == nil || !strings.Contains(err.Error(), "."+path+" ") {
				t.Errorf("%s %q is not refused: %v", path, no, err)
			}
		}
	}
	if tried < 14 {
		t.Errorf("only %d paths", tried)
	}
}

// TestCallbackPathGoesOn tests that a process that sends or receives reads a file whose callback section has what is no
// path, with which a rail may be in force.
func TestCallbackPathGoesOn(t *testing.T) {
	text := strings.Replace(railconfig.Example(), "key: data.reference", "key: data..reference", 1)
	if file, err := railconfig.Parse([]byte(text), nil); err != nil {
		t.Error(err)
	} else if got := file.Rails[1].Tolerated(file.Rails[1].Profile); len(got) != 1 ||
		!strings.HasPrefix(got[0].Error(), "callback.key ") {
		t.Errorf("%v", got)
	}
}

// TestPageTables: the page names every code table.
func TestPageTables(t *testing.T) {
	want := "`" + strings.Join(codes.Names(), "`, `") + "`"
	if got := rows(t, page(t))["profile.codes.table"].bounds; got != want {
		t.Errorf("docs/rails.md names the tables %s, there are %s", got, want)
	}
}
