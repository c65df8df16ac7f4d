package console

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/railhead-pay/railhead/internal/explain"
)

// The bounds of a payload that is shown.
const (
	redactedLines = 200
	redactedDepth = 20
	keyMax        = 80 // characters of a key
)

// redacted returns the form of a payload: its keys and the types of its values. No value is in it.
func redacted(payload json.RawMessage) string {
	if len(payload) == 0 {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	var lines []string
	if err := form(decoder, "", 0, &lines); err != nil {
		return "the payload is no JSON"
	}
	if len(lines) > redactedLines {
		lines = append(lines[:redactedLines], "...")
	}
	return strings.Join(lines, "\n")
}

// form appends a line for each value of a document, with its key and its type.
func form(decoder *json.Decoder, key string, depth int, lines *[]string) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	label := strings.Repeat("  ", min(depth, redactedDepth))
	if key != "" {
		label += explain.Bounded(explain.OneLine(key), keyMax) + ": "
	}
	add := func(text string) {
		if len(*lines) <= redactedLines {
			*lines = append(*lines, label+text)
		}
	}
	switch value := token.(type) {
	case json.Delim:
		add(map[json.Delim]string{'{': "object", '[': "list"}[value])
		for decoder.More() {
			name := ""
			if value == '{' {
				token, err := decoder.Token()
				if err != nil {
					return err
				}
				name, _ = token.(string)
			}
			if err := form(decoder, name, depth+1, lines); err != nil {
				return err
			}
		}
		_, err := decoder.Token() // its end
		return err
	case string:
		add("text")
	case float64:
		add("number")
	case bool:
		add("true or false")
	default:
		add("null")
	}
	return nil
}
