package httpjson

import (
	"errors"
	"slices"
	"strings"
)

// An instruction's id and its participant, each as a value of its own, name one payment, except in a cell that allows
// second keys: there two payments may have both. Joined to one text they name none: of the participants acme and acme1
// the instructions 17 and 7 are one.

// SecondKeys returns a joined error of where a bank could take one payment for another in a cell that allows second
// keys: sends that name a payment by its instruction without the rail key, and inquiries by both ids. Each error begins
// with the path of its field, and SecondKeys expects a valid configuration.
func (c Config) SecondKeys() error {
	var all faults
	sends, _ := c.carried()
	const shared = "which two payments may share in a cell that allows second keys, so that the bank "
	if sends("instruction_id") && !sends("rail_key") {
		all.refuse("http.send", "names a payment by instruction_id, "+shared+"may take the second for the first: "+
			"send the rail key, too")
	}
	if c.asksByIDs() {
		all.refuse("http.inquiry", "asks by instruction_id and participant_id, "+shared+"can answer about the other one: "+
			"ask by rail_key or by the bank's reference")
	}
	return errors.Join(all...)
}

// asksByIDs reports whether nothing but both ids names the payment of an inquiry.
func (c Config) asksByIDs() bool {
	if c.Inquiry == nil || c.Inquiry.needsReference() {
		return false
	}
	_, asks := c.carried()
	body, _ := compileTemplate(c.Inquiry.Body, inquirySources)
	return !asks("rail_key") && wholeIn(c.Inquiry.Path, body, "instruction_id") &&
		wholeIn(c.Inquiry.Path, body, "participant_id")
}

// sendsWhole reports whether a send has a source as a value of its own.
func (c Config) sendsWhole(source string) bool {
	body, _ := compileTemplate(c.Send.Body, sendSources)
	return wholeIn(c.Send.Path, body, source)
}

// wholeIn reports whether a source is a field of a body, or the only placeholder of a segment of a path or of a value
// of its query. Fixed text around it makes no two values one.
func wholeIn(path string, body template, source string) bool {
	return body.root.mentions(source) || slices.ContainsFunc(pathValues(path), func(value string) bool {
		return strings.Contains(value, "{"+source+"}") && strings.Count(value, "{") == 1
	})
}

// joinsIDs reports whether a path has both ids in one segment, or in one value of its query, without the rail key.
func joinsIDs(path string) bool {
	return slices.ContainsFunc(pathValues(path), func(value string) bool {
		return strings.Contains(value, "{instruction_id}") && strings.Contains(value, "{participant_id}") &&
			!strings.Contains(value, "{rail_key}")
	})
}

// pathValues returns the segments of a path and the values of its query. A part of the query without a name is its
// own value.
func pathValues(path string) []string {
	path, query, _ := strings.Cut(path, "?")
	values := strings.Split(path, "/")
	for part := range strings.SplitSeq(query, "&") {
		_, value, named := strings.Cut(part, "=")
		if !named {
			value = part
		}
		values = append(values, value)
	}
	return values
}
