// Package railsfile writes rails files that lead to simulated banks: how a bank of package railsim
// receives sends and inquiries, and how its callbacks are read. Each caller gives the profile,
// which states what a bank does.
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

//go:embed stream.yaml
var streamText string

var streamFile = template.Must(template.New("stream").Parse(streamText))

//go:embed topic.yaml
var topicText string

var topicFile = template.Must(template.New("topic").Parse(topicText))

// TopicName is the topic of a fake of Kafka to which the rail of [Topic] leads.
const TopicName = "PAYMENTS"

// StreamName is the stream to which the rail of [Stream] leads.
const StreamName = "PAYMENTS"

// The places where a bank is asked about a payment.
const (
	ByKey = "/payments/by-key/{rail_key}"
	ByID  = "/payments/by-id/{reference}" // by its own reference
)

// The fields that a bank gets as the reference of a payment. It gets the rail key in a header too, and returns it.
const (
	Key         = "rail_key"
	Instruction = "instruction_id" // its ledger shows then who was paid twice, whatever keys were used
)

// Rail is one rail with the bank behind it.
type Rail struct {
	Name      string
	URL       string // of the bank
	Profile   string // in YAML: its lines, or all of it in braces
	Reference string // Key, or Instruction
	Inquiry   string // ByKey, or ByID; empty: it can't be asked
	// Refused is how an inquiry treats a refusal: CODE, by the meaning of its code, or REFUSED
	// whatever the code is.
	Refused string
	// Secret refers to the secret that signs the bank's callbacks; empty if the bank does not call
	// back.
	Secret string
}

// Block returns the profile, indented as it stands below its name.
func (r Rail) Block() string {
	profile := strings.TrimSpace(r.Profile)
	if strings.HasPrefix(profile, "{") {
		return " " + profile
	}
	return "\n      " + strings.ReplaceAll(profile, "\n", "\n      ")
}

// Text returns the text of the file of these rails.
func Text(rails ...Rail) ([]byte, error) {
	var b strings.Builder
	err := file.Execute(&b, rails)
	return []byte(b.String()), err
}

// Bank returns the file of one rail named bank that answers finally, de-duplicates by key and can
// be asked, as local runs have it.
func Bank(url string) ([]byte, error) {
	return Text(Rail{Name: "bank", URL: url, Profile: bankProfile, Reference: Key, Inquiry: ByKey, Refused: "REFUSED"})
}

// Stream returns the file of one rail named stream, whose instructions become messages of the stream
// [StreamName] on one server without replicas. The URL is nats://HOST:PORT.
func Stream(url string) ([]byte, error) {
	var b strings.Builder
	err := streamFile.Execute(&b, url)
	return []byte(b.String()), err
}

// Topic returns the file of one rail named topic, whose instructions become records of the topic [TopicName] of a fake
// of Kafka with one broker. The URL is kafka://HOST:PORT.
func Topic(url string) ([]byte, error) {
	var b strings.Builder
	err := topicFile.Execute(&b, url)
	return []byte(b.String()), err
}
