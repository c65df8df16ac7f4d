package console

import (
	"regexp"
	"strings"
)

// block is a part of a runbook: a heading, a paragraph, a list or lines to type. Of Markdown there is what
// runbooks have, and nothing in it becomes markup by itself.
type block struct {
	Kind  string // h2, p, ol, ul or pre
	Text  string // of h2 and pre
	Lines [][]span
}

// span is a part of a line.
type span struct {
	Kind string // code, b or alert; empty: as it is
	Text string
}

var (
	listItem = regexp.MustCompile(`^(?:(\d+)\.|-) +(.*)$`)
	// inline are code, what is said loudly, a link to a page of the repository, and the name of an alert.
	inline = regexp.MustCompile("`([^`]+)`|" + `\*\*([^*]+)\*\*|\[([^]]+)\]\((?:\.\./)*([^)]+)\)|` +
		`\b(Railhead[A-Z][A-Za-z]+)\b`)
)

// blocksOf reads a runbook. Its first line is its title, which the page has already.
func blocksOf(text string) []block {
	var all []block
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); {
		line := lines[n]
		item := listItem.FindStringSubmatch(line)
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
			n++
		case strings.HasPrefix(line, "## "):
			all = append(all, block{Kind: "h2", Text: line[len("## "):]})
			n++
		case strings.HasPrefix(line, "```"):
			end := n + 1
			for end < len(lines) && !strings.HasPrefix(lines[end], "```") {
				end++
			}
			all = append(all, block{Kind: "pre", Text: strings.Join(lines[n+1:min(end, len(lines))], "\n")})
			n = end + 1
		case item != nil:
			kind := "ul"
			if item[1] != "" {
				kind = "ol"
			}
			list := block{Kind: kind}
			for n < len(lines) {
				if item = listItem.FindStringSubmatch(lines[n]); item == nil {
					break
				}
				more := lines[n+1 : paragraphEnd(lines, n+1)]
				list.Lines = append(list.Lines, spansOf(strings.Join(append([]string{item[2]}, more...), " ")))
				n += 1 + len(more)
			}
			all = append(all, list)
		default:
			end := paragraphEnd(lines, n+1)
			all = append(all, block{Kind: "p", Lines: [][]span{spansOf(strings.Join(lines[n:end], " "))}})
			n = end
		}
	}
	return all
}

// paragraphEnd is the first line from one on that is no part of its paragraph.
func paragraphEnd(lines []string, from int) int {
	for from < len(lines) && lines[from] != "" && !strings.HasPrefix(lines[from], "```") &&
		!strings.HasPrefix(lines[from], "## ") && !listItem.MatchString(lines[from]) {
		from++
	}
	return from
}

func spansOf(line string) []span {
	var all []span
	last := 0
	for _, at := range inline.FindAllStringSubmatchIndex(line, -1) {
		part := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return line[at[2*n]:at[2*n+1]]
		}
		if at[0] > last {
			all = append(all, span{Text: line[last:at[0]]})
		}
		switch {
		case part(1) != "":
			all = append(all, span{"code", part(1)})
		case part(2) != "":
			all = append(all, span{"b", part(2)})
		case part(4) != "":
			all = append(all, span{Text: part(3) + " ("}, span{"code", part(4)}, span{Text: ")"})
		case runbookOf(part(5)) != nil:
			all = append(all, span{"alert", part(5)})
		default:
			all = append(all, span{Text: part(0)})
		}
		last = at[1]
	}
	if last < len(line) {
		all = append(all, span{Text: line[last:]})
	}
	return all
}
