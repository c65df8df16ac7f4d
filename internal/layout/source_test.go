package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// parsed calls visit with every Go file of the repository but tests, parsed with its comments.
func parsed(t *testing.T, visit func(file string, fset *token.FileSet, syntax *ast.File)) {
	t.Helper()
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			return
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		visit(file, fset, syntax)
	})
}

// uncommented are methods whose interface says what they do.
var uncommented = []string{"String", "Error", "Index", "IndexType", "Dimensions"}

// TestExportedNamesHaveComments wants a comment on every exported name. One comment may be of a whole group.
func TestExportedNamesHaveComments(t *testing.T) {
	t.Parallel()
	seen := 0
	parsed(t, func(file string, fset *token.FileSet, syntax *ast.File) {
		check := func(name *ast.Ident, comments ...*ast.CommentGroup) {
			if !name.IsExported() {
				return
			}
			seen++
			if !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c != nil }) {
				t.Errorf("%s:%d: %s is exported and has no comment", file, fset.Position(name.Pos()).Line, name.Name)
			}
		}
		for _, decl := range syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ofExported(d.Recv.List[0].Type) && !slices.Contains(uncommented, d.Name.Name) {
					check(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						check(s.Name, d.Doc, s.Doc)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							check(name, d.Doc, s.Doc, s.Comment)
						}
					}
				}
			}
		}
	})
	if seen < 1000 {
		t.Errorf("only %d exported names were seen: the rule looks at nothing", seen)
	}
}

// ofExported reports whether a receiver's type is exported.
func ofExported(receiver ast.Expr) bool {
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.IsExported()
		default:
			return false
		}
	}
}

// sqlInGo finds a literal that begins a statement which reads or writes.
var sqlInGo = regexp.MustCompile(`^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH [a-z_]+ AS)\s`)

// noSQL are the folders of the product: its SQL is in .sql files.
var noSQL = []string{
	"", "acl", "cmd/railhead", "console", "ingest", "internal/clock", "internal/explain", "internal/httpclient",
	"internal/lineage", "internal/linger",
	"internal/metrics",
	"internal/tracing", "ledger", "migrations", "payment", "rails", "reaper", "relayer",
}

// sqlAllowed are statements in Go, by how they begin, each with its reason.
var sqlAllowed = map[string]string{
	"acl: SELECT pg_advisory_xact_lock($1)":                               "a lock of the server's; acl has no file of statements",
	"acl: SELECT has_table_privilege('pg_catalog.pg_authid', 'SELECT')":   "the server's catalog; acl has no file of statements",
	"acl: SELECT coalesce(rolpassword, '') FROM pg_catalog.pg_authid":     "the server's catalog; acl has no file of statements",
	"ledger: SELECT pg_notify($1, $2)":                                    "the server's alone",
	"ledger: SELECT pg_advisory_unlock(hashtextextended($1, 0))":          "the server's alone",
	"ledger: SELECT clock_timestamp()":                                    "the server's alone",
	"ledger: SELECT set_config('statement_timeout', $1, true)":            "settings of the session, before the statements of files",
	"migrations: SELECT coalesce(max(m.version_id), 0) FROM ":             "the version table of goose, before anything of the cell is known",
	"migrations: SELECT to_regclass($1) IS NOT NULL":                      "the server's catalog, before there is a schema",
	"migrations: INSERT INTO ":                                            "the version table of goose",
	"migrations: SELECT CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_i": "the server's catalog, of which a part is an argument",
	"migrations: SELECT to_regrole($1) IS NOT NULL, to_regnamespace($2)":  "the server's catalog, before there is a schema",
}

// TestSQLIsInFiles keeps statements out of the product's Go, but for the list.
func TestSQLIsInFiles(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	parsed(t, func(file string, fset *token.FileSet, syntax *ast.File) {
		dir := strings.TrimPrefix(path.Dir(file), ".")
		in := slices.IndexFunc(noSQL, func(tree string) bool {
			return dir == tree || tree != "" &&
				strings.HasPrefix(dir, tree+"/")
		})
		if in < 0 {
			return
		}
		ast.Inspect(syntax, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil || !sqlInGo.MatchString(text) {
				return true
			}
			said := noSQL[in] + ": " + strings.Join(strings.Fields(text), " ")
			for allowed := range sqlAllowed {
				if strings.HasPrefix(said+" ", allowed) {
					used[allowed] = true
					return true
				}
			}
			t.Errorf("%s:%d: a statement in Go: %.80s", file, fset.Position(node.Pos()).Line, said)
			return true
		})
	})
	for allowed := range sqlAllowed {
		if !used[allowed] {
			t.Errorf("the list has %q, which is nowhere", allowed)
		}
	}
}

// starAllowed are files of SQL with SELECT *, each with its reason.
var starAllowed = map[string]string{
	"proofs/sql/attempts.sql":    "COPY of every relation, whatever its columns",
	"ledger/sql/record.sql":      "the columns of {outcomes} are its definition",
	"ledger/sql/record_done.sql": "the columns of {outcomes} are its definition",
}

// TestSelectNamesColumns refuses SELECT * in SQL files.
func TestSelectNamesColumns(t *testing.T) {
	t.Parallel()
	star := regexp.MustCompile(`(?i)\bSELECT\s+\*`)
	used, files := map[string]bool{}, 0
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".sql") || strings.HasPrefix(file, "bench/") {
			return
		}
		files++
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !star.Match(text) {
			return
		}
		if used[file] = true; starAllowed[file] == "" {
			t.Errorf("%s selects *: name the columns", file)
		}
	})
	for file := range starAllowed {
		if !used[file] {
			t.Errorf("the list has %s, which selects no *", file)
		}
	}
	if files < 200 {
		t.Errorf("only %d SQL files were seen: the rule looks at nothing", files)
	}
}

// TestDrawnComments prints 40 comments with their places, for a reader to judge whether they say
// what they are of. DRAW_SEED draws others.
func TestDrawnComments(t *testing.T) {
	t.Parallel()
	const draws = 40
	seed, err := strconv.ParseUint(os.Getenv("DRAW_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	var all []string
	parsed(t, func(file string, fset *token.FileSet, syntax *ast.File) {
		for _, group := range syntax.Comments {
			if text := strings.TrimSpace(group.Text()); text != "" {
				all = append(all, fmt.Sprintf("%s:%d: %s", file, fset.Position(group.Pos()).Line, text))
			}
		}
	})
	if len(all) < 1000 {
		t.Fatalf("only %d comments were seen", len(all))
	}
	order := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))
	for _, n := range order[:draws] {
		t.Log(all[n])
	}
}

// TestFilesAreShort keeps a file to what can be read in one go. Tests may be longer: a table has as
// many rows as it has.
func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	const most = 350
	files := 0
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		files++
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > most {
			t.Errorf("%s has %d lines, more than %d: split it by the questions that it answers", file, lines, most)
		}
	})
	if files < 300 {
		t.Errorf("only %d files were seen: the rule looks at nothing", files)
	}
}

// TestLinesAreShort keeps a line to what fits next to a diff, 120 characters, in every Go file. Three things
// may be longer, since a break in them costs more than it brings: a line of a raw string (a statement, a
// document, a table), one row of a table of values, and a field with its tags, which cannot be broken.
func TestLinesAreShort(t *testing.T) {
	t.Parallel()
	const most = 120
	files := 0
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") {
			return
		}
		files++
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		raw := rawLines(text)
		for i, line := range strings.Split(string(text), "\n") {
			if utf8.RuneCountInString(line) <= most || raw[i+1] || tableRow.MatchString(line) {
				continue
			}
			t.Errorf("%s:%d has %d characters, more than %d: break it where the outermost list may be broken",
				file, i+1, utf8.RuneCountInString(line), most)
		}
	})
	if files < 700 {
		t.Errorf("only %d files were seen: the rule looks at nothing", files)
	}
}

// tableRow is an element of a composite literal on one line: {"a", 1}, or "a": {1, 2}, whose key may be a
// sentence.
var tableRow = regexp.MustCompile(`^\s*(\{.*\},|"([^"\\]|\\.)*": .*(,|\{))$`)

// rawLines are the lines, from 1, that a raw string touches.
func rawLines(text []byte) map[int]bool {
	lines := map[int]bool{}
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var scan scanner.Scanner
	scan.Init(file, text, nil, 0)
	for {
		pos, kind, said := scan.Scan()
		if kind == token.EOF {
			return lines
		}
		if kind == token.STRING && said[0] == '`' {
			first := fset.Position(pos).Line
			for line := range strings.Count(said, "\n") + 1 {
				lines[first+line] = true
			}
		}
	}
}
