package railhead_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead"
)

var (
	_ railhead.Outbox = (*railhead.Client)(nil)
	_ railhead.Outbox = (*railhead.HTTPClient)(nil)
)

// namesMost bounds the exported names: each is a promise to callers.
const namesMost = 35

// TestNames keeps the package small.
func TestNames(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	name := func(ident *ast.Ident) {
		if ident.IsExported() {
			names = append(names, ident.Name)
		}
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					name(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						name(s.Name)
					case *ast.ValueSpec:
						for _, ident := range s.Names {
							name(ident)
						}
					}
				}
			}
		}
	}
	slices.Sort(names)
	t.Logf("%d names: %v", len(names), names)
	if len(names) > namesMost || len(names) < 20 {
		t.Errorf("%d exported names, want 20 to %d: %v", len(names), namesMost, names)
	}
}

// TestOpenRefuses: Open returns the faults of a configuration before it calls anything.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, config := range []railhead.Config{{MaxConns: -1}, {MaxConns: 101}, {URL: "postgres://host/%"},
		{Cell: "No Cell"}} {
		if client, err := railhead.Open(t.Context(), config); err == nil {
			client.Close()
			t.Errorf("%+v is accepted", config)
		}
	}
	if _, err := railhead.NewHTTP(railhead.HTTPConfig{}); err == nil {
		t.Error("a client of no API is accepted")
	}
}
