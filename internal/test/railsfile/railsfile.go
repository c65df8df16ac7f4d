// Package railsfile writes rails files that lead to simulated banks: how a bank of package railsim
// is sent to, asked and heard. What a bank is promised to do, the profile, is each caller's.
package railsfile

import (
	_ "embed"
	"strings"
	"text/template"
)

//go:embed rails.yaml.tmpl
var text string

var file = template.Must(template.New("rails").Parse(text))

//go:embed bank.yaml
var bankProfile string

// Where a bank is asked about a payment.
const (
	ByKey = "/payments/by-key/{rail_key}"
	ByID  = "/payments/by-id/{reference}" // by its own reference
)

// What a bank gets as the reference of a payment, and says again.
const (
	Key         = "rail_key"
	Instruction = "instruction_id" // its ledger shows then who was paid twice, whatever keys were used
)

// Rail is one rail, and the bank behind it.
type Rail struct {
	Name      string
	URL       string // of the bank
	Profile   string // in YAML: its lines, or all of it in braces
	Reference string // Key, or Instruction
	Inquiry   string // ByKey, or ByID; empty: it can't be asked
	// Refused is what an inquiry makes of a refusal: CODE, what its code says, or REFUSED whatever the code is.
	Refused string
	// Secret refers to what the bank's callbacks are signed by; empty: it does not call back.
	Secret string
}

// Block is the profile as it stands below its name.
func (r Rail) Block() string {
	profile := strings.TrimSpace(r.Profile)
	if strings.HasPrefix(profile, "{") {
		return " " + profile
	}
	return "\n      " + strings.ReplaceAll(profile, "\n", "\n      ")
}

// Text is the file of these rails.
func Text(rails ...Rail) ([]byte, error) {
	var b strings.Builder
	err := file.Execute(&b, rails)
	return []byte(b.String()), err
}

// Bank is the file of one rail named bank that answers finally, de-duplicates by key and can be
// asked, as local runs have it.
func Bank(url string) ([]byte, error) {
	return Text(Rail{Name: "bank", URL: url, Profile: bankProfile, Reference: Key, Inquiry: ByKey, Refused: "REFUSED"})
}
