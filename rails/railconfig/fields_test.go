package railconfig_test

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/httpjson"
	"github.com/railhead-pay/railhead/rails/kafka"
	"github.com/railhead-pay/railhead/rails/nats"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/rails/secret"
)

// field is a field of the file as the Go types have it.
type field struct {
	kind     string
	standard string // the default, as the file would write it; empty: none, or 0
}

// fields lists every field by its path, those of a rail without "rails[].".
func fields() map[string]field {
	profile := rails.Profile{Policy: payment.Policy{Inquiry: payment.InquiryPolicy{Max: 1},
		BusinessRetry: payment.BusinessRetry{Max: 1}}}
	profile = profile.WithDefaults()
	profile.Inquiry.Max, profile.BusinessRetry.Max = 0, 0
	http := httpjson.Config{Inquiry: &httpjson.InquiryConfig{}, Signature: &httpjson.SignatureConfig{}}.WithDefaults()
	stream := nats.Config{}.WithDefaults()
	topic := kafka.Config{}.WithDefaults()
	rail := railconfig.RailConfig{Profile: profile, HTTP: &http, NATS: &stream, Kafka: &topic}
	all := map[string]field{}
	collect(all, reflect.ValueOf(railconfig.File{Rails: []railconfig.RailConfig{rail}}), "")
	for path, f := range maps.Clone(all) {
		if short, inRail := strings.CutPrefix(path, "rails[]."); inRail {
			delete(all, path)
			all[short] = f
		}
	}
	return all
}

func collect(all map[string]field, value reflect.Value, path string) {
	for _, member := range reflect.VisibleFields(value.Type()) {
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		if !member.IsExported() || member.Anonymous || name == "" || name == "-" {
			continue
		}
		at, v := strings.TrimPrefix(path+"."+name, "."), value.FieldByIndex(member.Index)
		if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
			all[at] = field{kind: "mapping"}
			if v.IsNil() {
				v = reflect.New(v.Type().Elem())
			}
			v = v.Elem()
		}
		leaf := isLeaf(v.Type())
		switch {
		case !leaf && v.Kind() == reflect.Struct:
			collect(all, v, at)
		case !leaf && v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && !isLeaf(v.Type().Elem()):
			all[at] = field{kind: "list of mappings"}
			one := reflect.New(v.Type().Elem()).Elem()
			if v.Len() > 0 {
				one = v.Index(0)
			}
			collect(all, one, at+"[]")
		case !leaf && v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Struct && !isLeaf(v.Type().Elem()):
			all[at] = field{kind: "mapping to mappings"}
			collect(all, reflect.New(v.Type().Elem()).Elem(), at+".*")
		default:
			all[at] = field{kind: kindOf(v.Type()), standard: standardOf(v)}
		}
	}
}

func isLeaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// kindOf is the word of docs/rails.md for a type.
func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[payment.Duration]():
		return "duration"
	case reflect.TypeFor[secret.Ref]():
		return "reference"
	case reflect.TypeFor[httpjson.HeaderValue]():
		return "text or reference"
	case reflect.TypeFor[string]():
		return "text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.String:
		return "word"
	case reflect.Bool:
		return "bool"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Interface:
		return "anything"
	case reflect.Map:
		return "mapping to " + kindOf(t.Elem())
	case reflect.Slice:
		if t.Elem() == reflect.TypeFor[string]() {
			return "list of text"
		}
		return "list of " + kindOf(t.Elem()) + "s"
	default:
		return "a type without a word: " + t.String()
	}
}

func standardOf(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice:
		var items []string
		for n := range v.Len() {
			items = append(items, standardOf(v.Index(n)))
		}
		return strings.Join(items, ", ")
	case v.IsZero() && v.Kind() != reflect.Bool:
		return ""
	default:
		return fmt.Sprint(v.Interface())
	}
}
