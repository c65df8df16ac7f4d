package faults

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"text/template"
)

// The rails of every run, by what the bank behind them can do.
const (
	Keyed     = "keyed"      // de-duplicates by key and can't be asked: same-key re-send
	Asked     = "asked"      // de-duplicates by key and can be asked
	Bare      = "bare"       // executes whatever arrives, can't be asked: one send, then a person
	BareAsked = "bare-asked" // executes whatever arrives and can be asked: never a second send
)

//go:embed rails.yaml.tmpl
var railsText string

var railsTemplate = template.Must(template.New("rails").Parse(railsText))

// railFacts is what the template needs.
type railFacts struct {
	Name    string
	BaseURL string
	Dedupes bool
	Inquiry bool
	Options
}

// writeRails writes the file that names the four rails.
func writeRails(path string, dedupes, bare string, o Options) error {
	rails := []railFacts{
		{Name: Keyed, BaseURL: dedupes, Dedupes: true},
		{Name: Asked, BaseURL: dedupes, Dedupes: true, Inquiry: true},
		{Name: Bare, BaseURL: bare},
		{Name: BareAsked, BaseURL: bare, Inquiry: true},
	}
	for n := range rails {
		rails[n].Options = o
	}
	var text strings.Builder
	if err := railsTemplate.Execute(&text, rails); err != nil {
		return fmt.Errorf("writing the rails file: %w", err)
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
