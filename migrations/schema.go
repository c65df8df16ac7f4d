package migrations

import (
	"crypto/md5"
	_ "embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// schemaText is the reviewed result of Dump for the default cell.
//
//go:embed testdata/schema.txt
var schemaText string

// functionLine matches a function of a committed schema, with the sum of its body.
var functionLine = regexp.MustCompile(`^(function ([a-z0-9_]+)\(.*, body )[0-9a-f]{32}$`)

// Schema returns what Dump must return for a cell that this build has migrated: the
// committed text with the cell's name. It computes the sums of function bodies from the
// migrations themselves, because the bodies contain the cell's name.
func Schema(cell string) (string, error) { return schemas.of(cell) }

var schemas = perCell[string]{make: schemaOf}

func schemaOf(cell string) (string, error) {
	all, err := All(cell)
	if err != nil {
		return "", err
	}
	return schemaIn(schemaText, cell, all)
}

// schemaIn returns a committed dump of the default cell as the dump of another cell to which
// these migrations were applied.
func schemaIn(text, cell string, all []Migration) (string, error) {
	bodies := bodiesIn(cell, all)
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		line = strings.ReplaceAll(line, DefaultCell+".", cell+".")
		line = strings.ReplaceAll(line, "pg_catalog, "+DefaultCell+", ", "pg_catalog, "+cell+", ")
		if found := functionLine.FindStringSubmatch(line); found != nil {
			body, there := bodies[found[2]]
			if !there {
				return "", fmt.Errorf("the committed schema has function %s, which no migration makes", found[2])
			}
			sum := md5.Sum([]byte(body))
			line = found[1] + hex.EncodeToString(sum[:])
		}
		lines[n] = line
	}
	return strings.Join(lines, "\n"), nil
}

// functionBodies returns the body of every function that the migrations make, by its name.
func functionBodies(cell string) (map[string]string, error) {
	all, err := All(cell)
	if err != nil {
		return nil, err
	}
	return bodiesIn(cell, all), nil
}

// bodiesIn is functionBodies for some migrations; the last one that makes a function wins. It
// leaves out functions whose body depends on the server.
func bodiesIn(cell string, all []Migration) map[string]string {
	bodies := make(map[string]string)
	for _, migration := range all {
		for _, text := range strings.Split(migration.SQL, "CREATE OR REPLACE FUNCTION "+cell+".")[1:] {
			name, rest, _ := strings.Cut(text, "(")
			_, rest, begun := strings.Cut(rest, "\nAS $$")
			if body, _, ended := strings.Cut(rest, "$$;"); begun && ended {
				bodies[name] = body
			}
		}
	}
	return bodies
}

// bodyOfUUIDv7 matches a body in the statement that makes uuidv7.
var bodyOfUUIDv7 = regexp.MustCompile(`(?s)AS (?:\$body\$(.*?)\$body\$|'([^']*)');`)

// UUIDv7Bodies returns the bodies that uuidv7 may have: it calls the server's own function
// from PostgreSQL 18 on, and has our own body before.
func UUIDv7Bodies(cell string) ([]string, error) {
	all, err := All(cell)
	if err != nil {
		return nil, err
	}
	var bodies []string
	for _, migration := range all {
		_, after, there := strings.Cut(migration.SQL, "CREATE OR REPLACE FUNCTION "+cell+".uuidv7()")
		definition, _, ended := strings.Cut(after, "$install$;")
		if !there || !ended {
			continue
		}
		for _, found := range bodyOfUUIDv7.FindAllStringSubmatch(definition, -1) {
			bodies = append(bodies, found[1]+found[2])
		}
	}
	return bodies, nil
}
