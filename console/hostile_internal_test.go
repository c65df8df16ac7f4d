package console

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// hostile is what a bank, a caller or a colleague may have written into any text.
const hostile = `"><img src=x onerror=HOSTILE><script>HOSTILE</script>'{{.}}` + "\u202e\x1b[31m"

// fill sets every text of a value to hostile, with a number, and every list to one element.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(2)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			text, _ := json.Marshal(map[string]string{hostile: hostile})
			v.SetBytes(text)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for n := range v.NumField() {
			if v.Type().Field(n).IsExported() {
				fill(v.Field(n))
			}
		}
	}
}

func filled[T any]() T {
	var value T
	fill(reflect.ValueOf(&value).Elem())
	return value
}

// hostileReader is a ledger in which every text is hostile.
type hostileReader struct{ change func(*reader.Timeline) }

func (hostileReader) Status(context.Context) (reader.Status, error) {
	return filled[reader.Status](), nil
}
func (hostileReader) Pace(context.Context) (reader.Pace, error) { return filled[reader.Pace](), nil }
func (hostileReader) LettersByCode(context.Context, reader.LetterFilter) ([]reader.LetterGroup, bool, error) {
	return filled[[]reader.LetterGroup](), false, nil
}
func (hostileReader) DeadLetters(context.Context, reader.LetterFilter) ([]reader.Letter, error) {
	return filled[[]reader.Letter](), nil
}
func (hostileReader) Find(context.Context, string) ([]reader.Found, error) {
	return append(filled[[]reader.Found](), filled[[]reader.Found]()...), nil
}
func (h hostileReader) Timeline(context.Context, payment.ID) (reader.Timeline, error) {
	line := filled[reader.Timeline]()
	h.change(&line)
	return line, nil
}
func (hostileReader) Deliveries(context.Context, payment.ID) ([]reader.Delivery, error) {
	return filled[[]reader.Delivery](), nil
}
func (hostileReader) List(context.Context, reader.ListFilter) (reader.List, error) {
	return filled[reader.List](), nil
}

// TestHostileText: no text of a bank, a caller or a person becomes markup, in any field of any page.
func TestHostileText(t *testing.T) {
	t.Parallel()
	letter := func(reason payment.DeadReason) func(*reader.Timeline) {
		return func(line *reader.Timeline) {
			line.NeverEnqueued, line.DeadLetter.Reason, line.Pending = false, reason, nil
		}
	}
	changes := map[string]func(*reader.Timeline){
		"as it is": func(*reader.Timeline) {},
		"pending":  func(line *reader.Timeline) { line.DeadLetter, line.Pending.Quarantine = nil, false },
		"claimed": func(line *reader.Timeline) {
			line.Pending, line.DeadLetter, line.Attempts[0].State = nil, nil, payment.Dispatching
		},
		"resolved": func(line *reader.Timeline) {
			line.Attempts[0].State, line.Attempts[0].ErrorCode = payment.Dispatched, payment.CodeResolved
		},
	}
	for _, reason := range payment.DeadReasons() {
		changes["letter "+string(reason)] = letter(reason)
	}
	for name, change := range changes {
		c, err := New(Config{Cell: "railhead"}, []Login{NewLink(Read)}, hostileReader{change}, nil, nil,
			slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		secret := c.sessions.begin(Person{Name: hostile, Role: Operate, By: hostile})
		for _, path := range []string{
			"/", "/payments?rail=" + strings.Repeat("%22%3E%3Cimg%20src=x%20onerror=HOSTILE%3E", 2) + "&state=PENDING",
			"/payments/01900000-0000-7000-8000-000000000000", "/search?id=x", "/live.json", "/none", "/payments?state=%3Cimg",
			"/dead-letters", "/dead-letters?code=" + strings.Repeat("%22%3E%3Cimg%20src=x%20onerror=HOSTILE%3E", 2) + "&rail=x",
			"/dead-letters?triage=%3Cimg",
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.AddCookie(c.cookie(secret))
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, r)
			text := w.Body.String()
			for _, bad := range []string{"<img", "<script>", "HOSTILE</", `">HOSTILE`, "onerror=HOSTILE>"} {
				if at := strings.Index(text, bad); at >= 0 {
					t.Errorf("%s, %s: the page has %q: %.200s", name, path, bad, text[max(0, at-100):])
				}
			}
			if w.Code >= 500 {
				t.Errorf("%s, %s: status %d", name, path, w.Code)
			}
			if (strings.HasPrefix(path, "/payments/") || path == "/dead-letters") && !strings.Contains(text, "HOSTILE") {
				t.Errorf("%s, %s: the page shows none of it, so that the test looks at nothing", name, path)
			}
			if strings.Contains(text, "\u202e") || strings.Contains(text, "\x1b") {
				t.Errorf("%s, %s: the page has a character that changes how others are shown", name, path)
			}
		}
	}
}

// brokenReader panics with text of a payload.
type brokenReader struct{ hostileReader }

func (brokenReader) Find(context.Context, string) ([]reader.Found, error) { panic("DE02-SECRET") }

// TestPanic: a panic is a page with what to do, without the value.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c, err := New(Config{}, []Login{NewLink(Read)}, brokenReader{}, nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/search?id=x", nil)
	r.AddCookie(c.cookie(c.sessions.begin(Person{Role: Read})))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "under the mark") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if strings.Contains(w.Body.String()+log.String(), "SECRET") || !strings.Contains(log.String(), "/search") {
		t.Errorf("the page or the log has the value, or the log not the place: %s", log.String())
	}
}
