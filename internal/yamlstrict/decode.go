package yamlstrict

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// plainNumber matches numbers that JSON and YAML read alike.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// read decodes a node into a value of any type that configuration structs use.
func (d *decoder) read(node ast.Node, into reflect.Value, path string, depth int) {
	if depth > maxDepth {
		d.refuse(node, path, "is nested deeper than %d levels", maxDepth)
		return
	}
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode, *ast.DirectiveNode:
		d.refuse(node, path, "uses an anchor, alias, merge or tag; write it out")
		return
	case *ast.NullNode:
		d.refuse(node, path, "has no value; leave the key out instead")
		return
	}
	if text, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		scalar, isScalar := node.(ast.ScalarNode)
		if !isScalar {
			d.refuse(node, path, "must be a text")
		} else if err := text.UnmarshalText([]byte(scalarText(scalar))); err != nil {
			d.refuse(node, path, "%w", err)
		}
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.read(node, into.Elem(), path, depth)
	case reflect.Struct:
		d.readStruct(node, into, path, depth)
	case reflect.Map:
		d.readMap(node, into, path, depth)
	case reflect.Slice:
		d.readSlice(node, into, path, depth)
	case reflect.Interface:
		if value := d.readAny(node, path, depth); value != nil {
			into.Set(reflect.ValueOf(value))
		}
	default:
		d.readScalar(node, into, path)
	}
}

func scalarText(node ast.ScalarNode) string {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	default:
		return node.GetToken().Value
	}
}

func (d *decoder) readStruct(node ast.Node, into reflect.Value, path string, depth int) {
	pairs, ok := d.pairs(node, path)
	if !ok {
		return
	}
	fields := map[string][]int{}
	for _, field := range reflect.VisibleFields(into.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && !field.Anonymous && name != "" && name != "-" {
			fields[name] = field.Index
		}
	}
	for _, pair := range pairs {
		index, known := fields[pair.key]
		if !known {
			d.refuse(pair.at, join(path, pair.key), "is not known here")
			continue
		}
		d.read(pair.value, into.FieldByIndex(index), join(path, pair.key), depth+1)
	}
}

func (d *decoder) readMap(node ast.Node, into reflect.Value, path string, depth int) {
	pairs, ok := d.pairs(node, path)
	if !ok {
		return
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(pairs)))
	for _, pair := range pairs {
		value := reflect.New(into.Type().Elem()).Elem()
		d.read(pair.value, value, join(path, pair.key), depth+1)
		into.SetMapIndex(reflect.ValueOf(pair.key), value)
	}
}

func (d *decoder) readSlice(node ast.Node, into reflect.Value, path string, depth int) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.refuse(node, path, "must be a list")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(sequence.Values), len(sequence.Values)))
	for n, item := range sequence.Values {
		at := join(path, strconv.Itoa(n))
		d.lines[at] = line(item)
		d.read(item, into.Index(n), at, depth+1)
	}
}

// readAny decodes free-form parts, such as the body of a request. Numbers keep their digits.
func (d *decoder) readAny(node ast.Node, path string, depth int) any {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		fields := map[string]any{}
		d.readMap(node, reflect.ValueOf(&fields).Elem(), path, depth)
		return fields
	case *ast.SequenceNode:
		items := []any{}
		d.readSlice(node, reflect.ValueOf(&items).Elem(), path, depth)
		return items
	case *ast.StringNode, *ast.LiteralNode:
		return scalarText(n.(ast.ScalarNode))
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		digits := node.GetToken().Value
		if !plainNumber.MatchString(digits) {
			d.refuse(node, path, "is not a plain decimal number")
			return nil
		}
		return json.Number(digits)
	default:
		d.refuse(node, path, "is of a kind that is not taken here")
		return nil
	}
}

func (d *decoder) readScalar(node ast.Node, into reflect.Value, path string) {
	text := node.GetToken().Value
	isNumber := slices.Contains([]ast.NodeType{ast.IntegerType, ast.FloatType}, node.Type()) &&
		plainNumber.MatchString(text)
	switch into.Kind() {
	case reflect.String:
		switch node.(type) {
		case *ast.StringNode, *ast.LiteralNode:
			into.SetString(scalarText(node.(ast.ScalarNode)))
		default:
			d.refuse(node, path, "must be a text; put it in quotes")
		}
	case reflect.Bool:
		flag, ok := node.(*ast.BoolNode)
		if !ok {
			d.refuse(node, path, "must be true or false")
			return
		}
		into.SetBool(flag.Value)
	case reflect.Int, reflect.Int64:
		value, err := strconv.ParseInt(text, 10, 64)
		if !isNumber || err != nil {
			d.refuse(node, path, "must be a whole number")
			return
		}
		into.SetInt(value)
	case reflect.Float64:
		value, err := strconv.ParseFloat(text, 64)
		if !isNumber || err != nil {
			d.refuse(node, path, "must be a number")
			return
		}
		into.SetFloat(value)
	default:
		d.refuse(node, path, "can't be read from a file")
	}
}
