package console

import (
	"context"
	"html"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestAddressesHaveTheBase: each address of a template begins with the base of the cell, unless it is one of all
// cells.
func TestAddressesHaveTheBase(t *testing.T) {
	t.Parallel()
	above := []string{"layout.html /search", "layout.html /logout", "cells.html /"}
	whole := []string{ // they have the base, or lead to a login or a trace
		"ask.html {{.Body.Address}}", "login.html {{.Address}}", "entered.html {{.Body}}", "payment.html {{.}}",
		"layout.html {{.Address}}/", "cells.html {{.Address}}/", "cells.html {{.Address}}/payments?state=PENDING",
		"cells.html {{.Address}}/dead-letters", "found_in_cells.html {{.Address}}/payments/{{.OutboxID}}",
	}
	address := regexp.MustCompile(`(?:href|src|action|formaction|hx-[a-z]+)="((?:\{\{[^}]*\}\})?[^"]*)"`)
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	based := 0
	for _, file := range files {
		text, err := templates.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range address.FindAllStringSubmatch(string(text), -1) {
			at := strings.TrimPrefix(file, "templates/") + " " + match[1]
			switch {
			case strings.HasPrefix(match[1], "{{base}}/"), strings.HasPrefix(match[1], "{{to "):
				based++
			case strings.HasPrefix(match[1], "/static/"), slices.Contains(above, at):
			case strings.HasPrefix(match[1], "/"), strings.HasPrefix(match[1], "{{") && !slices.Contains(whole, at):
				t.Errorf("%s: it leads out of the cell", at)
			}
		}
	}
	if based < 90 {
		t.Errorf("only %d addresses with a base were found", based)
	}
}

// actingAt is an operator of a cell; it notes what was done there.
type actingAt struct {
	Operator
	setting string
	did     *[]string
}

func (o actingAt) CancelPayment(context.Context, payment.ID, string) (operator.Cancellation, error) {
	*o.did = append(*o.did, "cancel in "+o.setting)
	return operator.Cancellation{AttemptNo: 1}, nil
}

func (o actingAt) TriageDeadLetter(context.Context, payment.ID, operator.Triage, string) (string, error) {
	*o.did = append(*o.did, "triage in "+o.setting)
	return "", nil
}

func (o actingAt) PauseRail(context.Context, string, string, time.Time) (bool, error) {
	*o.did = append(*o.did, "pause in "+o.setting)
	return true, nil
}

// twoActing is a console of two cells with the same payments, and the acts that were done in them.
func twoActing(t *testing.T) (browserOf, *[]string) {
	t.Helper()
	var did []string
	west, east := cellWith("WEST", 1), cellWith("EAST", 1)
	for _, cell := range []*Cell{&west, &east} {
		cell.Reader = hostileReader{func(line *reader.Timeline) { line.NeverEnqueued = false }}
		cell.Operator = actingAt{nil, cell.Setting, &did}
	}
	return several(t, west, east).enter(t), &did
}

// addresses are those that a page leads to or sends forms to, by the attributes that have them.
var addresses = regexp.MustCompile(`\s(href|src|action|formaction|hx-get)="([^"]*)"`)

// TestLinksStayInTheCell goes through every link of every page of a cell: they lead to the same cell, but for those
// of the header that name another one.
func TestLinksStayInTheCell(t *testing.T) {
	t.Parallel()
	b, _ := twoActing(t)
	const base = "/cells/WEST/"
	ways := []string{"href /", "href /cells/EAST/", "action /search", "action /logout"}
	seen, left := map[string]bool{base: true}, []string{base}
	for len(left) > 0 {
		path := left[0]
		left = left[1:]
		w := b.send(http.MethodGet, path, nil)
		if w.Code >= 500 {
			t.Errorf("%s: status %d", path, w.Code)
		}
		_, main, _ := strings.Cut(w.Body.String(), "<main")
		for _, match := range addresses.FindAllStringSubmatch(w.Body.String(), -1) {
			name, to := match[1], html.UnescapeString(match[2])
			switch {
			case strings.HasPrefix(to, "#"), strings.HasPrefix(to, "?"), strings.HasPrefix(to, "/static/"):
				continue
			case slices.Contains(ways, name+" "+to):
				if strings.Contains(main, match[0]) {
					t.Errorf("%s: %s %s leads out of the cell, below its header", path, name, to)
				}
				continue
			case !strings.HasPrefix(browsed(to), base):
				t.Errorf("%s: %s %s leads out of the cell", path, name, to)
				continue
			}
			if to = browsed(to); name != "formaction" && !seen[to] && len(seen) < 500 {
				seen[to] = true
				left = append(left, to)
			}
		}
	}
	for _, want := range []string{
		"payments", "payments/0", "payments?", "dead-letters", "dead-letters?", "rails", "rails/", "participants",
		"participant?id=", "endpoints", "components", "database", "tokens", "alerts", "audit", "audit/log", "audit/proofs/",
		"runbooks/Railhead",
	} {
		found := false
		for path := range seen {
			found = found || strings.HasPrefix(path, base+want)
		}
		if !found {
			t.Errorf("no page leads to %s: %d pages were seen", want, len(seen))
		}
	}
}

// TestActsStayInTheCell: an act is done in the cell of the page that it was sent from, and nowhere else; it leads
// back to that cell, and a page of the same subject in another cell does not say that it was done.
func TestActsStayInTheCell(t *testing.T) {
	t.Parallel()
	b, did := twoActing(t)
	id := someIDs(1)[0]
	form := newSecret()
	for _, test := range []struct {
		path string
		form url.Values
		did  string
		to   string
	}{
		{"/payments/" + id + "/cancel", url.Values{"seen": {"0"}}, "cancel", "/payments/" + id},
		{"/rails/bank/pause", nil, "pause", "/rails/bank"},
		{"/dead-letters/acknowledge",
			url.Values{"id-" + form: {id}, "count": {"1"}, "form": {form}, "seen-" + id: {"-1.1.1.FAILED"}}, "triage",
			"/dead-letters/orders/" + form},
	} {
		values := url.Values{"reason": {"x"}}
		maps.Copy(values, test.form)
		for _, setting := range []string{"WEST", "EAST"} {
			other := map[string]string{"WEST": "EAST", "EAST": "WEST"}[setting]
			*did = nil
			w := b.send(http.MethodPost, "/cells/"+setting+test.path, values)
			to := "/cells/" + setting + test.to
			if w.Code != 303 || w.Header().Get("Location") != to {
				t.Errorf("%s in %s leads to %q with status %d: %s", test.path, setting, w.Header().Get("Location"), w.Code, w.Body)
			}
			if len(*did) != 1 || (*did)[0] != test.did+" in "+setting {
				t.Errorf("%s in %s did %v", test.path, setting, *did)
			}
			const note = `role="status"`
			if elsewhere := b.get("/cells/"+other+"/rails/bank", 200); strings.Contains(elsewhere, note) {
				t.Errorf("%s in %s: a page of %s says that it was done", test.path, setting, other)
			}
			if page := b.get(to, 200); test.did == "pause" && !strings.Contains(page, note) {
				t.Errorf("%s in %s: its page does not say that it was done", test.path, setting)
			}
		}
		if w := b.send(http.MethodPost, test.path, values); w.Code != 404 {
			t.Errorf("%s of no cell: status %d", test.path, w.Code)
		}
	}
	if page := b.get("/cells/WEST/dead-letters/orders/"+newSecret(), 404); !strings.Contains(page, "no longer kept") {
		t.Error(page)
	}
}

// TestOneCellHasNoBase: the pages of a console of one cell know nothing of others.
func TestOneCellHasNoBase(t *testing.T) {
	t.Parallel()
	c := liveConsole(t, Config{Cell: "railhead"})
	secret := c.sessions.begin(Person{Name: "ann", Role: Read})
	for _, path := range hostilePaths {
		page := c.page(t.Context(), secret, path).Body.String()
		for _, word := range []string{"/cells/", "data-base", "data-poll", `aria-label="Cells"`, "All cells"} {
			if strings.Contains(page, word) {
				t.Errorf("%s has %q", path, word)
			}
		}
	}
	if w := c.page(t.Context(), secret, "/cells/WEST/"); w.Code != 404 {
		t.Errorf("status %d", w.Code)
	}
}
