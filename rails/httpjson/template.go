package httpjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// maxBody bounds a rendered request, in bytes.
const maxBody = 256 << 10

// template renders the body of a request from named fields. It is data and not text: a value can't
// break out of its place.
type template struct {
	root templateNode
}

// templateNode is a source, a literal, or an object or list of nodes.
type templateNode struct {
	source   string // empty for the other kinds
	optional bool
	literal  any
	fields   map[string]templateNode
	items    []templateNode
	isList   bool
}

// fieldSet contains the sources that a kind of request has.
type fieldSet []string

var (
	inquirySources = fieldSet{"rail_key", "instruction_id", "participant_id", "reference"}
	sendSources    = fieldSet{
		"rail_key", "instruction_id", "participant_id", "currency",
		"amount.decimal", "amount.trimmed", "amount.minor", "amount.number", "amount.minor_text", payloadSources,
	}
)

const (
	literalPrefix = "literal:"
	payloadPrefix = "payload."
	// payloadSources stands for the paths into the payload: the payload itself is no source.
	payloadSources = payloadPrefix + "PATH"
)

func compileTemplate(body map[string]any, known fieldSet) (template, error) {
	var all []error
	root := compileNode(body, "", known, &all)
	return template{root: root}, errors.Join(all...)
}

func compileNode(value any, at string, known fieldSet, all *[]error) templateNode {
	switch v := value.(type) {
	case map[string]any:
		node := templateNode{fields: make(map[string]templateNode, len(v))}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			node.fields[key] = compileNode(v[key], strings.TrimPrefix(at+"."+key, "."), known, all)
		}
		return node
	case []any:
		node := templateNode{isList: true}
		for n, item := range v {
			node.items = append(node.items, compileNode(item, fmt.Sprintf("%s.%d", at, n), known, all))
		}
		return node
	case string:
		return compileSource(v, at, known, all)
	default:
		return templateNode{literal: v}
	}
}

func compileSource(text, at string, known fieldSet, all *[]error) templateNode {
	if literal, ok := strings.CutPrefix(text, literalPrefix); ok {
		return templateNode{literal: literal}
	}
	name, optional := strings.CutSuffix(text, "?")
	path, isPayload := strings.CutPrefix(name, payloadPrefix)
	switch {
	case isPayload && slices.Contains(known, payloadSources):
		if err := jsondoc.CheckPayloadPath(path); err != nil {
			*all = append(*all, fmt.Errorf("field %s: %w", at, err))
		}
	case !slices.Contains(known, name):
		*all = append(*all, fmt.Errorf("field %s: %q is no source; known are %s and literal:TEXT",
			at, text, strings.Join(known, ", ")))
	}
	return templateNode{source: name, optional: optional}
}

// needs reports whether the node can't be rendered without a source.
func (n templateNode) needs(source string) bool {
	if n.source == source && !n.optional {
		return true
	}
	for _, field := range n.fields {
		if field.needs(source) {
			return true
		}
	}
	return slices.ContainsFunc(n.items, func(item templateNode) bool { return item.needs(source) })
}

// mentions reports whether the node has a source, optional or not.
func (n templateNode) mentions(source string) bool {
	if n.source == source {
		return true
	}
	for _, field := range n.fields {
		if field.mentions(source) {
			return true
		}
	}
	return slices.ContainsFunc(n.items, func(item templateNode) bool { return item.mentions(source) })
}

// payloadPaths returns the paths into the payload without which the node can't be rendered.
func (n templateNode) payloadPaths() []string {
	var paths []string
	if path, isPayload := strings.CutPrefix(n.source, payloadPrefix); isPayload && !n.optional {
		paths = append(paths, path)
	}
	for _, field := range n.fields {
		paths = append(paths, field.payloadPaths()...)
	}
	for _, item := range n.items {
		paths = append(paths, item.payloadPaths()...)
	}
	return paths
}

// render returns the bytes of the body: keys sorted, no white space. If a source that is not
// optional is missing, the error contains its name and no value.
func (t template) render(values map[string]any, payload jsondoc.Doc) ([]byte, error) {
	body, _, err := t.root.value(values, payload)
	if err != nil {
		return nil, err
	}
	text, err := jsondoc.AppendValue(nil, body)
	if err != nil {
		return nil, err
	}
	if len(text) > maxBody {
		return nil, &rails.CheckError{Field: "payload", Rule: "SIZE",
			Why: fmt.Sprintf("the request would have more than %d bytes", maxBody)}
	}
	return text, nil
}

func (n templateNode) value(values map[string]any, payload jsondoc.Doc) (value any, there bool, err error) {
	switch {
	case n.source != "":
		return n.find(values, payload)
	case n.fields != nil:
		object := make(map[string]any, len(n.fields))
		for _, key := range slices.Sorted(maps.Keys(n.fields)) {
			field, there, err := n.fields[key].value(values, payload)
			if err != nil {
				return nil, false, err
			}
			if there {
				object[key] = field
			}
		}
		return object, true, nil
	case n.isList:
		list := make([]any, 0, len(n.items))
		for _, item := range n.items {
			element, there, err := item.value(values, payload)
			if err != nil {
				return nil, false, err
			}
			if there {
				list = append(list, element)
			}
		}
		return list, true, nil
	default:
		return n.literal, true, nil
	}
}

func (n templateNode) find(values map[string]any, payload jsondoc.Doc) (any, bool, error) {
	value, there := values[n.source]
	path, isPayload := strings.CutPrefix(n.source, payloadPrefix)
	if isPayload {
		value, there = payload.Find(path)
	}
	if there || n.optional {
		return value, there, nil
	}
	return nil, false, &rails.CheckError{Field: path, Rule: "TEMPLATE",
		Why: "is missing, and the request has a place for it"}
}

// sendValues returns the sources of a send, with the amount in the rail's decimals.
func sendValues(s rails.Send, checks rails.Checks) (map[string]any, error) {
	amount, err := checks.AmountFor(s.Amount)
	if err != nil {
		return nil, &rails.CheckError{Field: "amount", Rule: "EXPONENT", Why: err.Error()}
	}
	minor := fmt.Sprint(amount.Minor)
	return map[string]any{
		"rail_key":          s.RailKey,
		"instruction_id":    s.InstructionID,
		"participant_id":    s.ParticipantID,
		"currency":          amount.Currency.Code,
		"amount.decimal":    amount.Decimal(),
		"amount.trimmed":    amount.DecimalTrimmed(),
		"amount.minor":      json.Number(minor),
		"amount.number":     json.Number(amount.Decimal()),
		"amount.minor_text": minor,
	}, nil
}

func inquiryValues(q rails.Inquiry) map[string]any {
	values := map[string]any{
		"rail_key":       q.RailKey,
		"instruction_id": q.InstructionID,
		"participant_id": q.ParticipantID,
	}
	if q.Reference != "" {
		values["reference"] = q.Reference
	}
	return values
}
