package console

import (
	"strings"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// keyMax bounds a key of a payload that is shown, in characters.
const keyMax = 80

// redacted is the form of a payload as text: a line for each value, with its key and its type. The
// database returns no value of it.
func redacted(form []reader.FormLine) string {
	var lines []string
	for n, part := range form {
		if n == reader.FormLinesMax {
			lines = append(lines, "...")
			break
		}
		label := strings.Repeat("  ", part.Depth)
		if part.Key != "" {
			label += explain.Bounded(explain.OneLine(part.Key), keyMax) + ": "
		}
		lines = append(lines, label+part.Kind)
	}
	return strings.Join(lines, "\n")
}
