package payment

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration whose encoding is text: "30s", "24h".
type Duration time.Duration

// MarshalText returns the form of time.Duration without trailing zero units: "24h",
// not "24h0m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the form of time.ParseDuration, such as 1h30m or 250ms.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30s, 250ms or 24h", text)
	}
	*d = Duration(parsed)
	return nil
}

func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}
