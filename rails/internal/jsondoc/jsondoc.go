// Package jsondoc decodes JSON from outside more strictly than encoding/json: one value with
// nothing after it, no repeated key, bounded depth, and numbers as their digits. A bank's answer
// with two values under one key proves nothing.
package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxDepth bounds nesting; no payment message comes near it.
const maxDepth = 64

// Errors of Parse.
var (
	ErrDepth     = errors.New("nested too deep")
	ErrDuplicate = errors.New("a key is given twice")
	ErrTrailing  = errors.New("more follows the value")
	ErrEncoding  = errors.New("not UTF-8")
)

// Doc is one JSON value: map[string]any, []any, string, json.Number, bool or nil.
type Doc struct{ root any }

// Parse decodes exactly one value. Its errors contain none of the text.
func Parse(text []byte) (Doc, error) {
	if !utf8.Valid(text) {
		return Doc{}, ErrEncoding
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	root, err := value(decoder, 0)
	if err != nil {
		return Doc{}, hidden(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Doc{}, ErrTrailing
	}
	return Doc{root: root}, nil
}

// hidden keeps the offset of a syntax error and drops its text, which quotes the input.
func hidden(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON at byte %d", syntax.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("JSON that ends early: %w", io.ErrUnexpectedEOF)
	}
	return err
}

func value(decoder *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, ErrDepth
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return object(decoder, depth)
	case json.Delim('['):
		return array(decoder, depth)
	default:
		return token, nil
	}
}

func object(decoder *json.Decoder, depth int) (any, error) {
	fields := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, errors.New("a key that is no string")
		}
		if _, twice := fields[key]; twice {
			return nil, ErrDuplicate
		}
		if fields[key], err = value(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return fields, err
}

func array(decoder *json.Decoder, depth int) (any, error) {
	items := []any{}
	for decoder.More() {
		item, err := value(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := decoder.Token()
	return items, err
}

// IsObject reports whether the value is an object, as every answer of a rail is.
func (d Doc) IsObject() bool {
	_, ok := d.root.(map[string]any)
	return ok
}

// AppendValue encodes a value of Doc in its canonical form: keys sorted, no white space, no HTML
// escapes, numbers as their digits.
func AppendValue(out []byte, value any) ([]byte, error) {
	buffer := bytes.NewBuffer(out)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return out, fmt.Errorf("writing JSON: %w", err)
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
