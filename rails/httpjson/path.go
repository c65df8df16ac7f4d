package httpjson

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/rails"
)

// sendPath returns the path of a send.
func (r *Rail) sendPath(s rails.Send) (string, error) {
	return fillPath(r.config.Send.Path, map[string]string{
		"rail_key": s.RailKey, "instruction_id": s.InstructionID, "participant_id": s.ParticipantID,
	})
}

// inquiryPath returns the path of an inquiry.
func (a *Asking) inquiryPath(q rails.Inquiry) (string, error) {
	return fillPath(a.config.Inquiry.Path, map[string]string{
		"rail_key": q.RailKey, "instruction_id": q.InstructionID, "participant_id": q.ParticipantID, "reference": q.Reference,
	})
}

// fillPath escapes each value for its place, in the path or in the query. It refuses a value that
// leads to another address, and names its field.
//
// A segment "." or ".." is removed together with the segment before it, by RFC 3986 (section
// 5.2.4), and url.PathEscape does not escape dots: the instruction ".." would turn
// /payments/{instruction_id}/confirm into /confirm. Servers and proxies that decode a path before
// they normalize it do the same with "%2e%2e" or "x%2f.." in a value, and some decode twice.
func fillPath(path string, values map[string]string) (string, error) {
	names := slices.Sorted(maps.Keys(values))
	path, query, hasQuery := strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for n, segment := range segments {
		filled, field := segment, ""
		for _, name := range names {
			if strings.Contains(segment, "{"+name+"}") {
				filled, field = strings.ReplaceAll(filled, "{"+name+"}", url.PathEscape(values[name])), name
			}
		}
		if field != "" && folds(filled) {
			return "", &rails.CheckError{Field: field, Rule: "PATH", Why: leadsAway}
		}
		segments[n] = filled
	}
	path = strings.Join(segments, "/")
	if !hasQuery {
		return path, nil
	}
	for _, name := range names {
		query = strings.ReplaceAll(query, "{"+name+"}", url.QueryEscape(values[name]))
	}
	return path + "?" + query, nil
}

const leadsAway = "would lead to another address: in the path of the request it is an empty segment, . or .., " +
	"or becomes one when it is decoded"

// folds reports whether a segment is empty or has a dot segment, as it is or after any number of
// decodings. Some servers treat what follows a semicolon as a parameter.
func folds(segment string) bool {
	for {
		parts := strings.FieldsFunc(segment, func(r rune) bool { return r == '/' || r == '\\' })
		for _, part := range parts {
			if end := strings.IndexAny(part, ";?#"); end >= 0 {
				part = part[:end]
			}
			if part == "." || part == ".." {
				return true
			}
		}
		if len(parts) == 0 {
			return true
		}
		decoded := unescape(segment)
		if decoded == segment {
			return false
		}
		segment = decoded
	}
}

// unescape decodes every valid escape of a text.
func unescape(text string) string {
	var out strings.Builder
	for at := 0; at < len(text); at++ {
		if text[at] == '%' && at+2 < len(text) {
			if decoded, err := url.PathUnescape(text[at : at+3]); err == nil {
				out.WriteString(decoded)
				at += 2
				continue
			}
		}
		out.WriteByte(text[at])
	}
	return out.String()
}

// foldsItself reports whether a configured path has a dot segment of its own. A placeholder counts
// as a name.
func foldsItself(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.Trim(placeholder.ReplaceAllString(path, "x"), "/")
	return path != "" && folds(path)
}
