package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// leaf is one field of a profile, by its path, with its value as text.
type leaf struct{ Path, Value string }

// The bounds of a profile that is shown.
const (
	leavesMax    = 1000
	leafDepthMax = 12
)

// errTooDeep is a profile with more objects in each other than one has.
var errTooDeep = errors.New("it is too deep")

// leavesOf returns the fields of a JSON object in its order. A list of single values is one field.
func leavesOf(document json.RawMessage) ([]leaf, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var leaves []leaf
	err := appendLeaves(decoder, "", 0, &leaves)
	return leaves, err
}

func appendLeaves(decoder *json.Decoder, path string, depth int, leaves *[]leaf) error {
	if depth > leafDepthMax || len(*leaves) > leavesMax {
		return errTooDeep
	}
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	begin, nested := token.(json.Delim)
	if !nested {
		*leaves = append(*leaves, leaf{path, valueOf(token)})
		return nil
	}
	before := len(*leaves)
	for n := 0; decoder.More(); n++ {
		below := fmt.Sprintf("%s[%d]", path, n)
		if begin == '{' {
			key, err := decoder.Token()
			if err != nil {
				return err
			}
			below = strings.TrimPrefix(path+"."+fmt.Sprint(key), ".")
		}
		if err := appendLeaves(decoder, below, depth+1, leaves); err != nil {
			return err
		}
	}
	if begin == '[' {
		*leaves = append((*leaves)[:before], joined(path, (*leaves)[before:])...)
	}
	_, err = decoder.Token() // its end
	return err
}

// joined returns the elements of a list as one field, unless they are objects.
func joined(path string, elements []leaf) []leaf {
	values := make([]string, 0, len(elements))
	for n, element := range elements {
		if element.Path != fmt.Sprintf("%s[%d]", path, n) {
			return elements
		}
		values = append(values, element.Value)
	}
	return []leaf{{path, strings.Join(values, ", ")}}
}

func valueOf(token json.Token) string {
	switch value := token.(type) {
	case nil:
		return "none"
	case string:
		return value
	default:
		return fmt.Sprint(value)
	}
}

// profileLeaves returns the fields of a version with the defaults of this build. If this build can't read it
// as a profile, they are as they are stored, and err says why.
func profileLeaves(version reader.ProfileVersion) (leaves []leaf, profile rails.Profile, err error) {
	text := []byte(version.Profile)
	if profile, err = rails.ParseProfile(text); err == nil {
		text, err = profile.JSON()
	}
	leaves, broken := leavesOf(text)
	return leaves, profile, errors.Join(err, broken)
}

// profileBody is a profile in groups of fields.
type profileBody struct {
	Version  reader.ProfileVersion
	Groups   []fieldGroup
	AsStored bool // this build can't read it as a profile
}

// fieldGroup is a group of the fields of a profile.
type fieldGroup struct {
	Title  string
	Fields []fieldRow
}

// fieldRow is a field with what it means, and in which unit it is.
type fieldRow struct {
	leaf
	Meaning string
}

func profileOf(version reader.ProfileVersion) profileBody {
	leaves, profile, err := profileLeaves(version)
	body := profileBody{Version: version, AsStored: err != nil}
	rows := make(map[string][]fieldRow)
	for _, one := range leaves {
		group, meaning := placeOf(one.Path)
		rows[group] = append(rows[group], fieldRow{one, meaning})
	}
	if err == nil {
		budget := leaf{"send budget", payment.Duration(profile.SendBudget()).String()}
		rows[groupTime] = append(rows[groupTime], fieldRow{budget, "the sum: the longest that one call may take"})
	}
	for _, group := range profileGroups {
		if fields := rows[group.title]; len(fields) > 0 {
			body.Groups = append(body.Groups, fieldGroup{group.title, fields})
		}
	}
	return body
}

// placeOf returns the group of a field and its meaning.
func placeOf(path string) (group, meaning string) {
	for _, group := range profileGroups {
		for _, field := range group.fields {
			if rest, below := strings.CutPrefix(path, field.path); below && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return group.title, field.meaning
			}
		}
	}
	return groupOther, ""
}

// changesBody is what two versions of a profile differ in.
type changesBody struct {
	Before, After reader.ProfileVersion // the zero value: there is no such version
	Rows          []changeRow
	AsStored      bool   // this build can't read one of them as a profile
	Missing       string // why nothing is compared; empty: it is
}

// changeRow is a field that differs; an empty value: that version has none.
type changeRow struct{ Path, Before, After string }

func changesOf(query reader.ProfileQuery, profiles reader.RailProfiles) changesBody {
	body := changesBody{Before: profiles.Before, After: profiles.After}
	switch {
	case body.After.Version == 0 || query.Before != 0 && body.Before.Version == 0:
		body.Missing = "There is no such version to compare."
		return body
	case body.Before.Version == 0:
		body.Missing = "It is the first version: there is none to compare it with."
		return body
	}
	before, _, badBefore := profileLeaves(body.Before)
	after, _, badAfter := profileLeaves(body.After)
	if body.AsStored = badBefore != nil || badAfter != nil; body.AsStored { // then neither has defaults
		before, badBefore = leavesOf(body.Before.Profile)
		after, badAfter = leavesOf(body.After.Profile)
		if badBefore != nil || badAfter != nil {
			body.Missing = "A version is too long or too deep to be compared."
			return body
		}
	}
	was := make(map[string]string, len(before))
	for _, one := range before {
		was[one.Path] = one.Value
	}
	for _, one := range after {
		if value, there := was[one.Path]; !there || value != one.Value {
			body.Rows = append(body.Rows, changeRow{one.Path, value, one.Value})
		}
		delete(was, one.Path)
	}
	for _, one := range before {
		if value, left := was[one.Path]; left {
			body.Rows = append(body.Rows, changeRow{one.Path, value, ""})
		}
	}
	return body
}
