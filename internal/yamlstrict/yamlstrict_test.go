package yamlstrict

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

type inner struct {
	Ratio *float64 `json:"ratio"`
	On    bool     `json:"on"`
}

type Shared struct {
	Wait payment.Duration `json:"wait"`
}

type outer struct {
	Shared
	Name   string            `json:"name"`
	Count  int               `json:"count"`
	Inner  *inner            `json:"inner"`
	List   []inner           `json:"list"`
	Words  map[string]string `json:"words"`
	Free   map[string]any    `json:"free"`
	Ints   []int             `json:"ints"`
	hidden string
}

func TestDecode(t *testing.T) {
	const text = `# a comment
name: >
  folded
  text
wait: 1h30m
count: -3
inner: {ratio: 0.25, on: true}
list:
  - on: true
  - ratio: 1
words: {503: R, "true": x}
ints: [1, 2]
free:
  a: text
  b: 10.50
  c: [true, {d: "7"}]
`
	var got outer
	lines, err := Decode([]byte(text), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := outer{
		Shared: Shared{Wait: payment.Duration(90 * time.Minute)}, Name: "folded text\n", Count: -3,
		Inner: &inner{Ratio: new(0.25), On: true}, List: []inner{{On: true}, {Ratio: new(1.0)}},
		Words: map[string]string{"503": "R", "true": "x"}, Ints: []int{1, 2},
		Free: map[string]any{"a": "text", "b": json.Number("10.50"), "c": []any{true, map[string]any{"d": "7"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for path, line := range map[string]int{"name": 2, "inner.on": 7, "list.1.ratio": 10, "list.1.ratio.x.y": 10,
		"free.c.1.d": 16, "nowhere": 0, "": 0} {
		if got := lines.Of(path); got != line {
			t.Errorf("%s is at line %d, want %d", path, got, line)
		}
	}
}

// TestByteOrderMark tests that a file may begin with a byte order mark, as some editors write it, and have none inside.
func TestByteOrderMark(t *testing.T) {
	var into struct {
		Name string `json:"name"`
	}
	lines, err := Decode([]byte("\ufeffname: a\n"), &into)
	if err != nil || into.Name != "a" || lines.Of("name") != 1 {
		t.Errorf("%+v, line %d, %v", into, lines.Of("name"), err)
	}
	if _, err := Decode([]byte("\ufeff\ufeffname: a\n"), &into); err == nil {
		t.Error("a second one is accepted")
	}
}

// TestEveryFaultWithItsLine, all in one file.
func TestEveryFaultWithItsLine(t *testing.T) {
	const text = `nme: x
name: 5
wait: soon
count: 1.5
inner: [a]
list: {}
words: {a: 1}
free: {a: 0x10, b: .inf}
hidden: x
ints: [1, two]
count: 2
Name: upper
`
	var got outer
	_, err := Decode([]byte(text), &got)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"line 1: nme is not known", "line 2: name must be a text", "line 3: wait ", "line 4: count must be a whole",
		"line 5: inner must be a mapping",
		"line 6: list must be a list", "line 7: words.a must be a text", "line 8: free.a is not a plain",
		"line 8: free.b is of a kind",
		"line 9: hidden is not known", "line 10: ints.1 must be a whole", "line 11: count is given twice",
		"line 12: Name is not known",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

func TestDecodeRefusesTricks(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "a list": "- a", "two documents": "name: a\n---\nname: b\n", "an anchor": "name: &a x\n",
		"an alias": "name: *a\n",
		"a tag":    "count: !!int 3\n", "a merge": "inner: {<<: {on: true}}\n", "a null": "name: null\n", "no value": "name:\n",
		"a bomb":      "free: {a: &a [x, x], b: &b [*a, *a], c: [*b, *b]}\n",
		"too deep":    "free: {a: " + strings.Repeat("[", 40) + "1" + strings.Repeat("]", 40) + "}\n",
		"not YAML":    "name: [\n",
		"a tab":       "inner:\n\ton: true\n",
		"a key of it": "{[a]: b}\n",
		"too long":    "name: " + strings.Repeat("x", MaxFile),
	} {
		var got outer
		if _, err := Decode([]byte(text), &got); err == nil {
			t.Errorf("%s is accepted: %+v", name, got)
		}
	}
}

// TestSyntaxErrorShowsNoSource: a secret may have been written there.
func TestSyntaxErrorShowsNoSource(t *testing.T) {
	var got outer
	_, err := Decode([]byte("name: ok\nwords: {password: hunter2\n"), &got)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "line ") {
		t.Errorf("got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"name: x\n", "inner: {ratio: 1e3}\n", "list: [{}]\n", "a: &a [*a]\n", "? x\n: y\n",
		"name: |\n  x\n", "\x00", "{", "- - - -"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got outer
		_, _ = Decode(text, &got)
		if got.hidden != "" {
			t.Error("a private field was set")
		}
	})
}
