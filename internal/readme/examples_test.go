package readme

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestExamplesPay: what the documents tell people to enqueue has what the bank of make
// run needs, so that it is paid and no dead letter.
func TestExamplesPay(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var needed []string
	for _, field := range regexp.MustCompile(`(?m): payload[.](\w+)$`).FindAllStringSubmatch(read("internal/test/railsfile/rails.yaml.tmpl"), -1) {
		needed = append(needed, field[1])
	}
	if len(needed) == 0 {
		t.Fatal("the bank of make run needs nothing in a payload")
	}
	examples := regexp.MustCompile(`(?s)'(\{\s*\\?"[^']*\})'|"payload":(\{[^\n]*\})\}`)
	for _, name := range []string{"README.md", "docs/ingest.md", "docs/cli.md", "cmd/railhead/enqueue.go"} {
		found := 0
		for _, match := range examples.FindAllStringSubmatch(read(name), -1) {
			text := match[1] + match[2]
			if name == "cmd/railhead/enqueue.go" {
				text = regexp.MustCompile(`\\"`).ReplaceAllString(text, `"`)
			}
			var payload map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &payload); err != nil || payload["traceparent"] != nil ||
				payload["expires_in"] != nil {
				continue
			}
			if whole := payload["payload"]; whole != nil { // an instruction, as HTTP takes it
				if err := json.Unmarshal(whole, &payload); err != nil {
					t.Fatal(err)
				}
			}
			found++
			if slices.ContainsFunc(needed, func(field string) bool { return payload[field] == nil }) {
				t.Errorf("%s: %s has not all of %v", name, text, needed)
			}
		}
		if found == 0 {
			t.Errorf("%s has no example", name)
		}
	}
}
