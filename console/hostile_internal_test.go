package console

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs"
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
func (hostileReader) PayloadForm(context.Context, payment.ID) ([]reader.FormLine, error) {
	return filled[[]reader.FormLine](), nil
}
func (hostileReader) List(context.Context, reader.ListFilter) (reader.List, error) {
	return filled[reader.List](), nil
}
func (hostileReader) OperatorLog(context.Context, reader.LogFilter) ([]reader.LoggedAct, bool, error) {
	return filled[[]reader.LoggedAct](), true, nil
}
func (hostileReader) NeverLogged(context.Context, reader.LogFilter) ([]string, error) {
	return filled[[]string](), nil
}
func (hostileReader) RoleDifferences(context.Context, string, []string) ([]acl.Difference, error) {
	return filled[[]acl.Difference](), nil
}
func (hostileReader) Identity(context.Context) (reader.Identity, error) {
	return filled[reader.Identity](), nil
}

func (hostileReader) RailProfiles(context.Context, reader.ProfileQuery) (reader.RailProfiles, error) {
	profiles := filled[reader.RailProfiles]()
	profiles.Before.Profile, profiles.More = json.RawMessage(`{}`), true
	return profiles, nil
}
func (hostileReader) RailCodes(context.Context, string) (reader.RailCodes, error) {
	return filled[reader.RailCodes](), nil
}
func (hostileReader) RailPause(context.Context, string) (*reader.Pause, error) {
	return filled[*reader.Pause](), nil
}
func (hostileReader) Participants(context.Context, reader.ParticipantFilter) (reader.ParticipantList, error) {
	return filled[reader.ParticipantList](), nil
}
func (hostileReader) Participant(context.Context, string) (reader.Participant, error) {
	return filled[reader.Participant](), nil
}
func (hostileReader) Endpoints(context.Context) ([]outbox.ListedEndpoint, error) {
	return filled[[]outbox.ListedEndpoint](), nil
}
func (hostileReader) HeldEvents(context.Context) (reader.HeldEvents, error) {
	return filled[reader.HeldEvents](), nil
}
func (hostileReader) MapState(context.Context) (reader.MapState, error) {
	return reader.MapState{Untaken: 1}, nil
}

func (hostileReader) Installed(context.Context) (reader.Schema, []reader.Suspension, error) {
	return filled[reader.Schema](), filled[[]reader.Suspension](), nil
}

func (hostileReader) Database(context.Context) (reader.Database, error) {
	return filled[reader.Database](), nil
}
func (hostileReader) LargestTables(context.Context) ([]reader.TableSize, error) {
	return filled[[]reader.TableSize](), nil
}
func (hostileReader) ExpiringSoon(context.Context) ([]reader.Expiring, bool, error) {
	return filled[[]reader.Expiring](), true, nil
}
func (hostileReader) Tokens(context.Context) ([]reader.ListedToken, bool, error) {
	return filled[[]reader.ListedToken](), true, nil
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
	folder := t.TempDir()
	fileHostileReport(t, folder)
	for name, change := range changes {
		for _, acting := range []Operator{nil, struct{ Operator }{}} { // without forms of acts, and with them
			c, err := New(Config{Cell: "railhead", ReportsFolder: folder}, []Login{NewLink(Read)}, hostileReader{change},
				acting, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, path := range hostilePaths {
				visitHostile(t, c, name, path)
			}
		}
	}
}

// inAPath is a hostile name as a part of an address.
var inAPath = url.PathEscape(hostile)

// hostilePaths are the pages, asked for with hostile names.
var hostilePaths = []string{
	"/", "/payments?rail=" + strings.Repeat("%22%3E%3Cimg%20src=x%20onerror=HOSTILE%3E", 2) + "&state=PENDING",
	"/payments/01900000-0000-7000-8000-000000000000", "/search?id=x", "/live.json", "/none", "/payments?state=%3Cimg",
	"/rails", "/rails/" + inAPath, "/rails/x?from=%3Cimg", "/participants?prefix=" + inAPath + "&after=" + inAPath,
	"/participant?id=" + inAPath, "/endpoints?did=" + inAPath, "/components",
	"/database", "/tokens", "/alerts",
	"/dead-letters", "/dead-letters?code=" + inAPath + "&rail=x", "/dead-letters?triage=%3Cimg",
	"/audit", "/audit/log?act=" + inAPath + "&person=%22%3E%3Cimg", "/audit/proofs/members", "/audit/proofs/%3Cimg%3E",
}

// shown are the beginnings of paths whose pages show text of the ledger.
var shown = []string{"/payments/", "/rails/" + inAPath, "/participant",
	"/endpoints", "/components", "/database", "/tokens", "/dead-letters?code", "/audit/log",
}

func visitHostile(t *testing.T, c *Console, name, path string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.AddCookie(c.cookie(c.sessions.begin(Person{Name: hostile, Role: Operate, By: hostile})))
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
	_, content, _ := strings.Cut(text, "<main") // the name of the person is above it
	shows := slices.ContainsFunc(shown, func(begin string) bool { return strings.HasPrefix(path, begin) })
	if shows && (w.Code != 200 || !strings.Contains(content, "HOSTILE")) {
		t.Errorf("%s, %s: the page shows none of it, so that the test looks at nothing", name, path)
	}
	if strings.Contains(text, "\u202e") || strings.Contains(text, "\x1b") {
		t.Errorf("%s, %s: the page has a character that changes how others are shown", name, path)
	}
}

// fileHostileReport files a report of the proofs in which every text but names of proofs is hostile.
func fileHostileReport(t *testing.T, folder string) {
	t.Helper()
	report := filled[proofs.Report]()
	report.Database.Cell, report.Proofs[0].Name, report.Proofs[0].Status = "railhead", "members", proofs.Failed
	text, err := report.File()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"good.json": text, "<img>HOSTILE.json": []byte("{}")} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
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

// hostileOperator reveals a hostile payload.
type hostileOperator struct{ Operator }

func (hostileOperator) RevealPayload(context.Context, payment.ID, string) (operator.Revealed, error) {
	return filled[operator.Revealed](), nil
}

// TestHostilePayload: no text of a payload becomes markup on the page that shows it.
func TestHostilePayload(t *testing.T) {
	t.Parallel()
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{}, hostileOperator{}, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"/payments/01900000-0000-7000-8000-000000000000/reveal", strings.NewReader("reason=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(c.cookie(c.sessions.begin(Person{Name: hostile, Role: Operate})))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	text := w.Body.String()
	if w.Code != 200 || strings.Count(text, "HOSTILE") < 4 {
		t.Errorf("status %d, and the page shows too little of it: %s", w.Code, text)
	}
	for _, bad := range []string{"<img", "<script>", `">HOSTILE`, "onerror=HOSTILE>", "\u202e", "\x1b"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q: %s", bad, text)
		}
	}
}
