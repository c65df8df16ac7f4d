package alerts

import (
	"regexp"
	"strings"
)

// selector is a metric in an expression, with its label matchers.
type selector struct {
	metric   string
	matchers []matcher
}

// matcher has label, operator and value as written.
type matcher struct{ label, op, value string }

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	window   = regexp.MustCompile(`\[[^\]]*\]`)
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\s*[({])?`)
	matching = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")`)
	duration = regexp.MustCompile(`\b([0-9]+(ms|s|m|h|d|w|y))+\b|\b[0-9.]+e[+-]?[0-9]+\b`)
	keywords = map[string]bool{
		"and": true, "or": true, "unless": true, "offset": true, "bool": true, "by": true, "without": true, "on": true,
		"ignoring": true, "group_left": true, "group_right": true, "Inf": true, "NaN": true, "inf": true, "nan": true,
	}
)

// selectors returns the metrics of a PromQL expression that Prometheus accepts. It
// parses only as much of the language as that needs.
func selectors(expr string) []selector {
	expr = grouping.ReplaceAllString(window.ReplaceAllString(expr, " "), " ")
	// Matchers are removed first, because a value may contain any text.
	var all []selector
	var rest strings.Builder
	for {
		open := strings.IndexByte(quoted.ReplaceAllStringFunc(expr, blank), '{')
		if open < 0 {
			break
		}
		end := strings.IndexByte(quoted.ReplaceAllStringFunc(expr[open:], blank), '}')
		if end < 0 {
			break
		}
		before := expr[:open]
		name := before[strings.LastIndexFunc(before, func(r rune) bool { return !isNameRune(r) })+1:]
		one := selector{metric: name}
		for _, m := range matching.FindAllStringSubmatch(expr[open:open+end], -1) {
			one.matchers = append(one.matchers, matcher{m[1], m[2], strings.ReplaceAll(m[3][1:len(m[3])-1], `\\`, `\`)})
		}
		all = append(all, one)
		rest.WriteString(before[:len(before)-len(name)] + " ")
		expr = expr[open+end+1:]
	}
	rest.WriteString(expr)
	plain := duration.ReplaceAllString(quoted.ReplaceAllString(rest.String(), " "), " ")
	for _, found := range word.FindAllString(plain, -1) {
		name := strings.TrimRight(found, " \t\n({")
		if !strings.HasSuffix(found, "(") && !keywords[name] {
			all = append(all, selector{metric: name})
		}
	}
	return all
}

func blank(s string) string { return strings.Repeat(" ", len(s)) }

func isNameRune(r rune) bool {
	return r == '_' || r == ':' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
