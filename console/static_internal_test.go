package console

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// sums are the SHA-256 of the files of others, as npm has them (npm pack htmx.org@4.0.1 uplot@1.6.32).
var sums = map[string]string{
	"htmx-4.0.1.LICENSE":   "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
	"htmx-4.0.1.min.js":    "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
	"uplot-1.6.32.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	"uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	"uplot-1.6.32.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}

// TestSums: the files of others are those of their pinned versions, each with its licence.
func TestSums(t *testing.T) {
	t.Parallel()
	ours := map[string]bool{"console.css": true, "console.js": true, "icon.svg": true}
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if ours[name] {
			continue
		}
		text, err := static.ReadFile("static/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:]); got != sums[name] {
			t.Errorf("%s has the sum %s, want %q", name, got, sums[name])
		}
		licence := regexp.MustCompile(`\d+\.\d+\.\d+`).FindStringIndex(name)
		if licence == nil {
			t.Errorf("%s has no version in its name", name)
		} else if sums[name[:licence[1]]+".LICENSE"] == "" {
			t.Errorf("%s has no licence", name)
		}
	}
}

// TestNothingInline: no template has a script, a style or an attribute that the policy forbids, or one
// that htmx evaluates.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`(?i)<style|\sstyle=|<script>|<script [^>]*>[^<]|\son[a-z]+=|hx-on|js:|javascript:|hx-trigger="[^"]*\[`)
	entries, err := fs.ReadDir(templates, "templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := templates.ReadFile("templates/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden.FindString(string(text)); found != "" {
			t.Errorf("%s has %q", entry.Name(), found)
		}
		for _, script := range regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			if _, err := static.ReadFile(strings.TrimPrefix(script[1], "/")); err != nil {
				t.Errorf("%s names %s, which is not there", entry.Name(), script[1])
			}
		}
	}
}

// TestPagesAskInTheBackground: whatever a page asks for by itself is marked, so that it is no use of the
// session.
func TestPagesAskInTheBackground(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	asking := 0
	for _, file := range files {
		text, err := templates.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range regexp.MustCompile(`<[^<>]*hx-trigger=[^<>]*>`).FindAllString(string(text), -1) {
			asking++
			if !strings.Contains(tag, `hx-headers='{"`+backgroundHeader+`": "1"}'`) {
				t.Errorf("%s: %s", file, tag)
			}
		}
	}
	if asking < 3 {
		t.Errorf("%d elements ask by themselves", asking)
	}
}
