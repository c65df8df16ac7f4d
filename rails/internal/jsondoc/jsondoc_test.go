package jsondoc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	doc, err := Parse([]byte(`{"a":{"b":[{"c":"x"},7.50,null]},"t":true,"n":null,"":"empty","a.b":"dotted"}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a.b.0.c": "x", "a.b.1": "7.50"} {
		if got, ok := doc.Text(path); !ok || got != want {
			t.Errorf("%s is %q, %v, want %q", path, got, ok, want)
		}
	}
	for _, path := range []string{"a", "a.b", "t", "n", "a.b.2", "a.b.3", "a.b.-1", "a.b.00000", "a.b.x", "x", "a.b.0.c.d",
		"a..b"} {
		if got, ok := doc.Text(path); ok {
			t.Errorf("%s is the text %q", path, got)
		}
	}
	if _, ok := doc.Find("n"); ok {
		t.Error("a null is there")
	}
	if _, ok := (Doc{}).Find("a"); ok || (Doc{}).IsObject() {
		t.Error("the zero document holds something")
	}
}

// TestLook tests that what is missing differs from what is there in another form, also on the way to the path.
func TestLook(t *testing.T) {
	for _, c := range []struct {
		text, path string
		want       Found
	}{
		{`{}`, "a", Found{}}, {`{"a":null}`, "a", Found{}}, {`{"a":null}`, "a.b", Found{}}, {`{"a":{}}`, "a.b", Found{}},
		{`{"a":{"c":1}}`, "a.b", Found{}}, {`{"a":[]}`, "a.b", Found{}}, {`{"a":[]}`, "a.0.b", Found{}},
		{`{"a":[{}]}`, "a.1.b", Found{}}, {`{"a":{}}`, "a.0.b", Found{}}, {`[]`, "a", Found{}},
		{`{"a":"x"}`, "a", Found{Text, "x"}}, {`{"a":[{"b":7.50}]}`, "a.0.b", Found{Text, "7.50"}},
		{`{"a":{"0":"x"}}`, "a.0", Found{Text, "x"}}, {`{"a":" x"}`, "a", Found{Text, " x"}},
		{`{"a":""}`, "a", Found{Blank, ""}}, {`{"a":" \t"}`, "a", Found{Blank, " \t"}}, {`{"a":[]}`, "a", Found{Blank, "[]"}},
		{`{"a":{}}`, "a", Found{Blank, "{}"}}, {`{"a":false}`, "a", Found{Blank, "false"}},
		{`{"a":""}`, "a.b", Found{Blank, ""}}, {`{"a":false}`, "a.b", Found{Blank, "false"}},
		{`{"a":true}`, "a", Found{Other, "true"}}, {`{"a":[1]}`, "a", Found{Other, "[1]"}},
		{`{"a":{"b":1}}`, "a", Found{Other, `{"b":1}`}}, {`{"a":[null]}`, "a", Found{Other, "[null]"}},
		{`{"a":"x"}`, "a.b", Found{Other, "x"}}, {`{"a":7}`, "a.b.c", Found{Other, "7"}},
		{`{"a":[{"b":1}]}`, "a.b", Found{Other, `[{"b":1}]`}}, {`{"a":{"b":1}}`, "a.0.b", Found{Other, `{"b":1}`}},
		{`{"a":[1]}`, "a.00000", Found{Other, "[1]"}},
	} {
		doc, err := Parse([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.Look(c.path); got != c.want {
			t.Errorf("%s of %s: %+v, want %+v", c.path, c.text, got, c.want)
		}
		want := c.want
		if c.text == `{"a":true}` || c.text == `{"a":false}` && c.path == "a" {
			want.Kind = Text
		}
		if got := doc.Word(c.path); got != want {
			t.Errorf("%s of %s as a word: %+v, want %+v", c.path, c.text, got, want)
		}
	}
}

// TestPathOfAnIndex: what PostgreSQL takes as an index into an array, and Find does not, is no path into a payload. One
// into an answer, which Find alone reads, may have a longer number as a key of an object.
func TestPathOfAnIndex(t *testing.T) {
	doc, err := Parse([]byte(`{"items":[{"id":"x"}],"result":{"20022":{"state":"OK"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"items.0.id", "items.00.id", "items.9999", "a-1", "a12345", "-", "-1a", "2024-01", "a b", "+",
	} {
		if err := errors.Join(CheckPath(path), CheckPayloadPath(path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	refused := func(path string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "index") {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"items.-1.id", "items.+0.id", "items. 0.id", "items.\v0.id", "items.-0.id", "-1"} {
		refused(path, CheckPath(path))
		refused(path, CheckPayloadPath(path))
		if got, ok := doc.Text(path); ok {
			t.Errorf("%q is the text %q", path, got)
		}
	}
	for path, want := range map[string]string{
		"items.00000.id": "", "items.10000": "", "items.99999999999": "", "result.20022.state": "OK",
	} {
		refused(path, CheckPayloadPath(path))
		if err := CheckPath(path); err != nil {
			t.Errorf("%s in an answer: %v", path, err)
		}
		if got, ok := doc.Text(path); got != want || ok != (want != "") {
			t.Errorf("%q is the text %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"", "a..b", ".", strings.Repeat("a", 201)} {
		if CheckPath(path) == nil || CheckPayloadPath(path) == nil {
			t.Errorf("%q is a path", path)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": ``, "space": ` `, "half": `{"a":`, "two values": `{} {}`, "a tail": `{}x`, "a key twice": `{"a":1,"a":1}`,
		"a key twice, escaped": `{"a":1,"\u0061":2}`, "twice inside": `{"x":[{"a":1,"a":2}]}`,
		"deep":      strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"very deep": strings.Repeat("[", 1<<20), "not UTF-8": "{\"a\":\"\xff\"}", "a word": `yes`, "single quotes": `{'a':1}`,
		"a comma too many": `{"a":1,}`, "a byte order mark": "\ufeff{}", "infinity": `{"a":Infinity}`, "a comment": `{/**/}`,
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), "yes") {
			t.Errorf("%s: the text shows in %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":[1,2.50,"x",null,true]}}`, `[]`, `{"a":1,"a":2}`, "\xff", `"x"`, `1e400`} {
		f.Add([]byte(seed), "a.b.0")
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		doc, err := Parse(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is accepted and no JSON", text)
		}
		doc.Text(path)
		written, err := AppendValue(nil, doc.root)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(written)
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, written, err)
		}
		if rewritten, err := AppendValue(nil, again.root); err != nil || string(rewritten) != string(written) {
			t.Errorf("%q became %q, then %q (%v)", text, written, rewritten, err)
		}
	})
}
