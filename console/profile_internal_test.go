package console

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/rails"
)

// pathsOf are the paths of the fields of a type, as its JSON has them. An object with any keys is one.
func pathsOf(of reflect.Type, path string) []string {
	if of.Kind() == reflect.Struct {
		var all []string
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" { // embedded
				all = append(all, pathsOf(field.Type, path)...)
				continue
			}
			all = append(all, pathsOf(field.Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
		return all
	}
	return []string{path}
}

// TestEveryFieldHasItsMeaning: each field of a profile has a group and a meaning, and no other field has.
func TestEveryFieldHasItsMeaning(t *testing.T) {
	t.Parallel()
	all := pathsOf(reflect.TypeFor[rails.Profile](), "")
	if len(all) < 40 {
		t.Errorf("only %d fields were found: %v", len(all), all)
	}
	for _, path := range all {
		if group, meaning := placeOf(path); group == "" || meaning == "" {
			t.Errorf("%s has no meaning", path)
		}
	}
	for _, group := range profileGroups {
		for _, field := range group.fields {
			if !slices.Contains(all, field.path) {
				t.Errorf("a profile has no field %s", field.path)
			}
		}
	}
}

func versionOf(number int, profile string) reader.ProfileVersion {
	return reader.ProfileVersion{Version: number, Profile: json.RawMessage(profile)}
}

const plainProfile = `{"rail_type": "bank", "acceptance": "FINAL", "id_after_refusal": "SAME"`

// TestProfile: a profile has all its fields with their defaults, and one that this build can't read as
// one has them as they are stored.
func TestProfile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		profile  string
		want     map[string]string
		asStored bool
	}{
		"with defaults": {plainProfile + `, "inquiry": {"max": 2, "intervals": ["30s", "5m"], "not_found": "INCONCLUSIVE"},
			"checks": {"fields": [{"field": "a.b", "rule": "IBAN"}]}, "codes": {"http": {"418": "U"}}}`,
			map[string]string{"acceptance": "FINAL", "concurrency": "32", "inquiry.intervals": "30s, 5m",
				"checks.fields[0].rule": "IBAN", "codes.http.418": "U", "send budget": "30s"}, false},
		"of another build": {plainProfile + `, "tempo": {"bars": [4, null]}}`,
			map[string]string{"acceptance": "FINAL", "tempo.bars": "4, none"}, true},
		"no object": {`[1, {"a": true}]`, map[string]string{"[0]": "1", "[1].a": "true"}, true},
		"too deep":  {strings.Repeat("[", 40) + strings.Repeat("]", 40), map[string]string{}, true},
	} {
		body := profileOf(versionOf(1, test.profile))
		found := map[string]string{}
		for _, group := range body.Groups {
			for _, field := range group.Fields {
				found[field.Path] = field.Value
			}
		}
		if body.AsStored != test.asStored {
			t.Errorf("%s: as it is stored: %t", name, body.AsStored)
		}
		for path, want := range test.want {
			if found[path] != want {
				t.Errorf("%s: %s is %q, want %q", name, path, found[path], want)
			}
		}
	}
}

// TestChanges: two versions differ in the fields whose values differ, defaults filled in.
func TestChanges(t *testing.T) {
	t.Parallel()
	first := versionOf(1, plainProfile+`}`)
	second := versionOf(2, plainProfile+`, "concurrency": 8, "codes": {"http": {"418": "U"}}, "retry": {"max_sends": 3}}`)
	strange := versionOf(3, plainProfile+`, "tempo": 3}`)
	for name, test := range map[string]struct {
		query   reader.ProfileQuery
		in      reader.RailProfiles
		want    []changeRow
		missing string
	}{
		"forward": {reader.ProfileQuery{}, reader.RailProfiles{Before: first, After: second},
			[]changeRow{{"concurrency", "32", "8"}, {"codes.http.418", "", "U"}}, ""},
		"backward": {reader.ProfileQuery{}, reader.RailProfiles{Before: second, After: first},
			[]changeRow{{"concurrency", "8", "32"}, {"codes.http.418", "U", ""}}, ""},
		"itself":     {reader.ProfileQuery{}, reader.RailProfiles{Before: first, After: first}, nil, ""},
		"as stored":  {reader.ProfileQuery{}, reader.RailProfiles{Before: first, After: strange}, []changeRow{{"tempo", "", "3"}}, ""},
		"the first":  {reader.ProfileQuery{}, reader.RailProfiles{After: first}, nil, "the first version"},
		"no such":    {reader.ProfileQuery{Before: 7}, reader.RailProfiles{After: first}, nil, "no such version"},
		"none later": {reader.ProfileQuery{After: 7}, reader.RailProfiles{Before: first}, nil, "no such version"},
	} {
		got := changesOf(test.query, test.in)
		if !slices.Equal(got.Rows, test.want) || !strings.Contains(got.Missing, test.missing) ||
			(got.Missing == "") != (test.missing == "") {
			t.Errorf("%s: %+v, %q", name, got.Rows, got.Missing)
		}
		if got.AsStored != (name == "as stored") {
			t.Errorf("%s: as they are stored: %t", name, got.AsStored)
		}
	}
}

// TestCodes: a code has the class of its own table, with the overrides of the profile, and one that has
// none is unmapped.
func TestCodes(t *testing.T) {
	t.Parallel()
	inForce := versionOf(1, plainProfile+`, "codes": {"table": "iso20022", "overrides": {"X1": "T1"}, "http": {"418": "U"}}}`)
	seen := reader.RailCodes{Looked: 5, Codes: []reader.RailCode{
		{Code: "AC04", Table: "iso20022@1"}, {Code: "X1", Table: "profile"}, {Code: "418", Table: "profile"},
		{Code: "503", Table: "http@1"}, {Code: "ZZZ9", Table: "iso20022@1"}, {Code: "AC04", Table: "http@1"},
	}}
	var unmapped []string
	body := codesOf(seen, inForce)
	for _, row := range body.Unmapped {
		unmapped = append(unmapped, row.Code+" of "+row.Table)
	}
	if want := []string{"ZZZ9 of iso20022@1", "AC04 of http@1"}; !slices.Equal(unmapped, want) {
		t.Errorf("unmapped are %v, want %v", unmapped, want)
	}
	if body.Rows[1].Class != "T1" || body.Rows[2].Class != "U" || !body.All {
		t.Errorf("the rows are %+v", body.Rows)
	}
	if body := codesOf(seen, versionOf(1, `{}`)); !body.Unread || len(body.Unmapped) > 0 || body.Rows[0].Class != "" {
		t.Errorf("with a profile that can't be read: %+v", body)
	}
}
