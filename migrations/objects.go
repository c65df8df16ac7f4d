package migrations

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// object is a function or a view of a migration: its whole text, between a line "-- function
// NAME" or "-- view NAME" and a line "-- end of NAME".
type object struct {
	kind, name, sql string
}

// folders are the folders of the kinds of objects, in the order in which a migration makes
// them, because views may call functions.
var folders = []struct{ kind, folder string }{{"function", "functions"}, {"view", "views"}}

// objectsOf finds the functions and views of a numbered file.
func objectsOf(sql string) ([]object, error) {
	var all []object
	var open *object
	var text strings.Builder
	for line := range strings.Lines(sql) {
		words := strings.Fields(line)
		begins := len(words) == 3 && words[0] == "--" && (words[1] == "function" || words[1] == "view")
		ends := len(words) == 4 && words[0] == "--" && words[1] == "end" && words[2] == "of"
		switch {
		case begins && open != nil:
			return nil, fmt.Errorf("%s %s begins before the end of %s", words[1], words[2], open.name)
		case begins:
			open = &object{kind: words[1], name: words[2]}
			text.Reset()
		case ends && (open == nil || open.name != words[3]):
			return nil, fmt.Errorf("the end of %s, which did not begin", words[3])
		case ends:
			open.sql = text.String()
			all = append(all, *open)
			open = nil
		case open != nil:
			text.WriteString(line)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s %s has no end", open.kind, open.name)
	}
	return all, nil
}

// text returns the object as it is in a numbered file.
func (o object) text() string {
	return fmt.Sprintf("-- %s %s\n%s-- end of %s\n", o.kind, o.name, o.sql, o.name)
}

// latest returns the last text of each object that the migrations make, in the order of
// these texts.
func latest(all []Migration) []object {
	var last []object
	for _, migration := range all {
		for _, made := range migration.objects {
			last = slices.DeleteFunc(last, func(o object) bool { return o.kind == made.kind && o.name == made.name })
			last = append(last, made)
		}
	}
	return last
}

// currentObjects reads functions/ and views/ below the folder of this package. Their texts
// have no header comment, and the vocabulary is written out, but {cell} is not replaced.
func currentObjects(from fs.FS, words vocabulary) ([]object, error) {
	var all []object
	for _, one := range folders {
		entries, err := fs.ReadDir(from, one.folder)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", one.folder, err)
		}
		for _, entry := range entries {
			path := one.folder + "/" + entry.Name()
			read, err := fs.ReadFile(from, path)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", path, err)
			}
			text, err := words.in(withoutHeader(string(read)), "cell", "version", "serves")
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, object{one.kind, strings.TrimSuffix(entry.Name(), ".sql"), text})
		}
	}
	return all, nil
}

// withoutHeader returns the text of a file without the comment at its top.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
