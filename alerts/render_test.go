package alerts

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

// unscaled is a duration of whole minutes, hours or days.
var unscaled = regexp.MustCompile(`(\[|offset |for: )\d+[mhd]\b`)

var update = flag.Bool("update", false, "write the rendered rules")

// TestCommitted compares the committed rules with what the template renders.
func TestCommitted(t *testing.T) {
	t.Parallel()
	rendered, err := Render(Settings{Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(RulesFile, rendered, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(RulesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, rendered) {
		t.Errorf("%s is not what the template renders: go test ./alerts -run TestCommitted -update", RulesFile)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text          string
		scale         int
		want, seconds string
	}{
		{"5m", 1, "5m", "300"}, {"3d", 1, "3d", "259200"}, {"90s", 1, "90s", "90"}, {"6h", 1, "6h", "21600"},
		{"5m", 60, "5s", "5"}, {"3d", 60, "72m", "4320"}, {"6h", 60, "6m", "360"}, {"30s", 60, "500ms", "0.5"},
	} {
		s := Settings{Scale: c.scale}
		got, err := s.duration(c.text)
		seconds, err2 := s.seconds(c.text)
		if got != c.want || seconds != c.seconds || errors.Join(err, err2) != nil {
			t.Errorf("%s at scale %d: %s, %s s, %v; want %s, %s s", c.text, c.scale, got, seconds, errors.Join(err, err2),
				c.want, c.seconds)
		}
	}
}

// TestEveryDurationIsScaled finds a duration that the template writes out.
func TestEveryDurationIsScaled(t *testing.T) {
	t.Parallel()
	// A scale that leaves no whole minute, hour or day of what the rules use.
	rendered, err := Render(Settings{Scale: 11})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rendered)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "summary:") || strings.HasPrefix(line, "#") || !strings.ContainsAny(line, "[:") {
			continue
		}
		if found := unscaled.FindString(line); found != "" {
			t.Errorf("%q is not scaled: %s", found, line)
		}
	}
}

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{{}, {Scale: -1}, {Scale: 601}} {
		if _, err := Render(s); !errors.Is(err, ErrSettings) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
