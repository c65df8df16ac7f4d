package layout

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unused are the words that this repository does not use, and what to write for
// each: the sentence then names who acts, or how long.
var unused = []struct{ word, instead string }{
	{"nobody", "the role, caller, worker or session that does not: no role, no caller, nothing"},
	{"no one", "the role, caller, worker or session that does not: no role, no caller, nothing"},
	{"somebody", "the one that is meant: the caller, an operator, another session, another process"},
	{"someone", "the one that is meant: the caller, an operator, another session, another process"},
	{"anybody", "the one that is meant: any role, every login, a caller"},
	{"anyone", "the one that is meant: any role, every login, a caller"},
	{"whoever", "the one that is meant: the caller that, a session that, the operator who"},
	{"for ever", "without a bound, without a time limit, permanently"},
	{"forever", "without a bound, without a time limit, permanently"},
	{"at the least", "at least"},
	{"beside", "next to, with, along with, in addition to, while, during, concurrently with"},
	{"besides", "in addition to, or nothing"},
	{"bell", "notifier, notification, wake-up"},
	{"doze", "arm: make enqueues notify, and wait"},
	{"dozing", "armed"},
	{"rouse", "disarm"},
	{"crew", "callers, goroutine pool"},
	{"deaf", "lost: notifications do not arrive"},
	{"discreet", "redact"},
	{"unlisted", "unmapped"},
	{"set aside", "quarantined"},
}

// kept are the places where such a word is a name that is not ours to change.
var kept = []struct{ file, text, why string }{
	{"internal/layout/words_test.go", "", "the list"},
	{"internal/test/pgserver/account.go", `"nobody"`, "an account of the operating system"},
	{"testbed/faults/bouncer.go", `"nobody"`, "an account of the operating system"},
}

// TestWords refuses the words of the list, in text and in names.
func TestWords(t *testing.T) {
	met := make([]bool, len(kept))
	walk(t, func(file string) {
		if !isText(file) {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
	finds:
		for _, found := range wordsOf(string(text)) {
			for n, k := range kept {
				if k.file == file && strings.Contains(found.line, k.text) {
					met[n] = true
					continue finds
				}
			}
			t.Errorf("%s:%d: %q: write %s", file, found.at, found.word, found.instead)
		}
	})
	for n, k := range kept {
		if !met[n] {
			t.Errorf("%s has no such word in a line with %q any more (%s): take it out of the list", k.file, k.text, k.why)
		}
	}
}

// isText reports whether a file is written by hand. What tests compare with is
// made of files that are looked at.
func isText(file string) bool {
	if strings.Contains(file, "testdata/") && (path.Ext(file) == ".golden" || path.Ext(file) == ".txt") {
		return false
	}
	switch path.Ext(file) {
	case ".go", ".sql", ".yaml", ".yml", ".tmpl", ".md", ".sh", ".html", ".ts", ".js", ".mjs", ".c", ".txt":
		return true
	case ".json":
		return path.Base(file) != "package-lock.json"
	}
	return path.Base(file) == "Makefile"
}

// found is a word of the list in a text.
type found struct {
	word, instead, line string
	at                  int // the line's number
}

// byLast are the entries of the list by their last word.
var byLast = func() map[string][]int {
	all := map[string][]int{}
	for n, one := range unused {
		words := strings.Fields(one.word)
		last := words[len(words)-1]
		all[last] = append(all[last], n)
	}
	return all
}()

// wordsOf finds the words of the list as they are written in a sentence, in
// capitals, and in a Go name. Those of several words may stand on two lines of a
// comment.
func wordsOf(text string) []found {
	var all []found
	var seen []span // of the last words, as many as an entry may have
	for at := 0; at < len(text); {
		if !isPart(text[at]) {
			at++
			continue
		}
		end := at
		for end < len(text) && isPart(text[end]) {
			end++
		}
		// A name of SQL can't be changed where a cell is migrated already. It is one word.
		whole := strings.IndexByte(text[at:end], '_') >= 0
		for at < end {
			next := end
			if !whole {
				next = at + hump(text[at:end])
			}
			seen = append(seen, span{at, next})
			if len(seen) > 8 {
				seen = slices.Delete(seen, 0, 4)
			}
			for _, n := range byLast[strings.ToLower(text[at:next])] {
				if from, ok := matches(text, seen, strings.Fields(unused[n].word)); ok {
					begin := strings.LastIndexByte(text[:from], '\n') + 1
					line, _, _ := strings.Cut(text[begin:], "\n")
					all = append(all, found{unused[n].word, unused[n].instead, line, strings.Count(text[:from], "\n") + 1})
				}
			}
			at = next
		}
	}
	return all
}

type span struct{ from, to int }

// matches reports whether the last spans are these words, and where they begin.
func matches(text string, spans []span, words []string) (from int, ok bool) {
	if len(spans) < len(words) {
		return 0, false
	}
	spans = spans[len(spans)-len(words):]
	for n, s := range spans {
		if !strings.EqualFold(text[s.from:s.to], words[n]) {
			return 0, false
		}
		if n > 0 {
			gap := text[spans[n-1].to:s.from]
			if strings.Contains(gap, "\n") {
				gap = strings.Trim(gap, "/-#*>")
				gap = strings.Trim(strings.TrimSpace(gap), "/-#*>")
			}
			if strings.TrimSpace(gap) != "" {
				return 0, false
			}
		}
	}
	return spans[0].from, true
}

// hump is the length of the first word of a Go name.
func hump(name string) int {
	for n := 1; n < len(name); n++ {
		if isUpper(name[n]) && (!isUpper(name[n-1]) || n+1 < len(name) && !isUpper(name[n+1])) {
			return n
		}
	}
	return len(name)
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// isPart reports whether a byte belongs to a word: those of other alphabets too.
func isPart(c byte) bool {
	return isUpper(c) || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c >= 0x80
}

// TestWordsAreFound: each word of the list is found however it is written, and what
// only looks like one is not.
func TestWordsAreFound(t *testing.T) {
	for _, one := range unused {
		words := strings.Fields(one.word)
		var name strings.Builder
		for _, word := range words {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		for _, text := range []string{
			"a row, " + one.word + ".",
			strings.ToUpper(one.word[:1]) + one.word[1:] + " waits",
			strings.ToUpper(one.word),
			"func Test" + name.String() + "Waits(t *testing.T) {",
			"func TestA" + name.String() + "(t *testing.T) {",
			"-- it waits " + strings.Join(words, "\n--   "),
			"\t// it waits " + strings.Join(words, "\n\t// ") + " more",
		} {
			if got := wordsOf("first\n" + text); len(got) != 1 || got[0].at != 2 || got[0].instead != one.instead {
				t.Errorf("%q: found %+v, want %q in line 2", text, got, one.word)
			}
		}
	}
	for _, text := range []string{
		"sidebeside", "besiden", "logins_sharing_a_role(text)", "http.NoBody", "no body", "for every", "for everything",
		"at the leastwise",
		"no. One", "NoOneof", "antinobody", "somebodyish", "least", "for the ever", "forevermore", "whoeverly", "ANOBODY",
	} {
		if got := wordsOf(text); len(got) != 0 {
			t.Errorf("%q: found %+v, want nothing", text, got)
		}
	}
}
