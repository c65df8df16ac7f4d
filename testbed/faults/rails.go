package faults

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/railhead-pay/railhead/internal/test/railsfile"
)

// These are the rails of every run. They differ in what the bank behind them can do.
const (
	Keyed     = "keyed"      // de-duplicates by key and can't be asked: same-key re-send
	Asked     = "asked"      // de-duplicates by key and can be asked
	Bare      = "bare"       // executes whatever arrives, can't be asked: one send, then an operator
	BareAsked = "bare-asked" // executes whatever arrives and can be asked: never a second send
)

//go:embed profile.yaml.tmpl
var profileText string

// profileTemplate is the template of a rail's profile. The sum of its timeouts stays
// below the claim timeout, as it must in a real installation.
var profileTemplate = template.Must(template.New("profile").Parse(profileText))

// railFacts holds what the template needs.
type railFacts struct {
	Dedupes, Inquiry bool
	Options
}

// writeRails writes the file that names the four rails.
func writeRails(path string, dedupes, bare string, o Options) error {
	var all []railsfile.Rail
	for _, one := range []struct {
		name, url string
		railFacts
	}{
		{Keyed, dedupes, railFacts{true, false, o}}, {Asked, dedupes, railFacts{true, true, o}},
		{Bare, bare, railFacts{false, false, o}}, {BareAsked, bare, railFacts{false, true, o}},
	} {
		var profile strings.Builder
		if err := profileTemplate.Execute(&profile, one.railFacts); err != nil {
			return fmt.Errorf("writing the profile of %s: %w", one.name, err)
		}
		rail := railsfile.Rail{Name: one.name, URL: one.url, Profile: profile.String(), Reference: railsfile.Instruction,
			Refused: "CODE"}
		switch {
		case one.Inquiry && o.ByReference:
			rail.Inquiry = railsfile.ByID
		case one.Inquiry:
			rail.Inquiry = railsfile.ByKey
		}
		all = append(all, rail)
	}
	text, err := railsfile.Text(all...)
	if err != nil {
		return fmt.Errorf("writing the rails file: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}
