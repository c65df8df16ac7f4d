// Package yamlstrict decodes configuration files into structs by their json tags, so that the same
// tags serve files and database. It refuses unknown and repeated keys, anchors, aliases, merges and
// tags, guesses no types, and returns all faults in one error, each with its line.
package yamlstrict

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file, in bytes and in levels of nesting.
const (
	MaxFile  = 1 << 20
	maxDepth = 32
)

// Lines contains the line of each dotted path in a file, such as rails.0.profile.timeouts.connect.
type Lines map[string]int

// Of returns the line of a path, or of the longest part of it that the file has; 0: none.
func (l Lines) Of(path string) int {
	for path != "" {
		if line, ok := l[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return 0
}

// ReadFile reads a file of at most MaxFile bytes.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, MaxFile)
	}
	return os.ReadFile(path)
}

// Decode decodes the only document of a file into the struct that into points to. Fields that are
// not in the file keep their value. The lines are complete even if Decode returns faults.
func Decode(text []byte, into any) (Lines, error) {
	d := decoder{lines: Lines{}}
	if len(text) > MaxFile {
		return d.lines, fmt.Errorf("the file is longer than %d bytes", MaxFile)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte order mark of some editors
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return d.lines, syntaxError(err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return d.lines, errors.New("the file must have one document")
	}
	d.read(file.Docs[0].Body, reflect.ValueOf(into).Elem(), "", 0)
	return d.lines, errors.Join(d.faults...)
}

// syntaxError keeps line and reason of a syntax error, and drops the excerpt of the file, which may
// contain a secret.
func syntaxError(err error) error {
	var syntax interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		return fmt.Errorf("line %d: not YAML: %s", syntax.GetToken().Position.Line, syntax.GetMessage())
	}
	return errors.New("not YAML")
}

type decoder struct {
	lines  Lines
	faults []error
}

func (d *decoder) refuse(node ast.Node, path, format string, args ...any) {
	if path == "" {
		path = "the file"
	}
	d.faults = append(d.faults, fmt.Errorf("line %d: %s "+format, append([]any{line(node), path}, args...)...))
}

func line(node ast.Node) int {
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// pairs returns the keys and values of a mapping. Keys are taken as text, so 503 is a key like any
// other.
func (d *decoder) pairs(node ast.Node, path string) ([]pair, bool) {
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		d.refuse(node, path, "must be a mapping")
		return nil, false
	}
	seen := map[string]bool{}
	all := make([]pair, 0, len(values))
	for _, value := range values {
		switch value.Key.(type) {
		case *ast.StringNode, *ast.IntegerNode:
		default:
			d.refuse(value.Key, path, "has a key that is no plain text")
			continue
		}
		key := value.Key.GetToken().Value
		if seen[key] {
			d.refuse(value.Key, join(path, key), "is given twice")
			continue
		}
		seen[key] = true
		d.lines[join(path, key)] = line(value.Key)
		all = append(all, pair{key: key, at: value.Key, value: value.Value})
	}
	return all, true
}

type pair struct {
	key   string
	at    ast.Node
	value ast.Node
}
