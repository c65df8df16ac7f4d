package reader

import (
	"encoding/json"
	"fmt"
	"time"
)

// Moment is a time that may be in a year which RFC 3339 can't write, as that of a row which was enqueued before such
// moments were refused.
type Moment struct{ time.Time }

// MarshalJSON writes a year after 9999 with its sign and six digits, as ISO 8601 has it: "+010000-01-01T04:59:59Z".
// PostgreSQL has none after 294276.
func (m Moment) MarshalJSON() ([]byte, error) {
	if utc := m.UTC(); utc.Year() > 9999 {
		return json.Marshal(fmt.Sprintf("+%06d-%s", utc.Year(), utc.Format("01-02T15:04:05.999999999Z")))
	}
	return m.Time.MarshalJSON() //nolint:wrapcheck // it is the standard form
}
