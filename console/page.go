package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

//go:embed templates
var templates embed.FS

// pages are the parsed templates, by their file's name.
type pages map[string]*template.Template

// parsePages parses the templates, which are part of the binary: a fault of one is a fault of the build. In them
// base is what the addresses of the cell begin with, and to is an address in the cell with it.
func parsePages(base string) pages {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"clock": explain.Clock, "span": explain.Span, "millis": explain.Millis, "line": explain.OneLine,
		"dash": explain.OrDash, "since": time.Since, "base": func() string { return base },
		"to": func(address string) string {
			if strings.HasPrefix(address, "/") {
				return base + address
			}
			return address // a place of the page
		},
		"after": func(now time.Time) string { return now.UTC().Add(24 * time.Hour).Format(time.RFC3339) },
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	all := make(pages)
	entries, err := templates.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "layout.html" && name != "parts.html" {
			all[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name))
		}
	}
	return all
}

// page is the data of a template: what every page has, and its own body.
type page struct {
	Title string
	Body  any

	// Set by show.
	Cell     string
	Version  string
	Person   *Person // nil: not logged in
	ReadOnly bool
	State    *seen      // nil: the state of the cell was never read
	Cells    []cellLink // of all cells, and of the page above them; nil: there is one
	All      *allNews   // nil: it is a page of a cell
}

// problem is an error as a page: what happened, and what to do about it. It has no value of a payload.
type problem struct {
	Status        int
	Title, Advice string
}

func (c *Console) show(w http.ResponseWriter, r *http.Request, name string, p page) {
	c.showWith(w, r, http.StatusOK, name, p)
}

// showWith shows a page of the cell.
func (c *Console) showWith(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Cell, p.State, p.Cells = c.name(), c.state.seen.Load(), c.links(c)
	c.send(w, r, status, c.pages[name], name, p)
}

// name is what the pages call the cell.
func (c *Console) name() string { return cmp.Or(c.cell.Setting, c.cell.Schema) }

// show shows a page that is of no cell, or, if there is one cell alone, of that.
func (s *Site) show(w http.ResponseWriter, r *http.Request, name string, p page) {
	s.showWith(w, r, http.StatusOK, name, p)
}

func (s *Site) showWith(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	if s.only != nil {
		s.only.showWith(w, r, status, name, p)
		return
	}
	p.Cells, p.All = s.links(nil), s.allNews()
	p.Cells[0].Here = r.URL.Path == "/"
	s.send(w, r, status, s.pages[name], name, p)
}

// send executes a template, and sends it only if that was done to its end.
func (s *Site) send(
	w http.ResponseWriter, r *http.Request, status int, from *template.Template, name string, p page,
) {
	p.Version, p.ReadOnly = s.config.Version, s.readOnly
	if person, ok := s.personOf(r); ok {
		p.Person = &person
	} else { // who has not logged in sees nothing of the cells
		p.State, p.Cell, p.Version, p.Cells, p.All = nil, "", "", nil, nil
	}
	var text bytes.Buffer
	if err := from.ExecuteTemplate(&text, name, p); err != nil {
		// The error may quote a value.
		s.log.ErrorContext(r.Context(), "a page could not be made", "template", name)
		http.Error(w, "This page has a defect. Use the command line: railhead status", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// No text from outside may change how others are shown, by a control character or its direction.
	_, _ = io.WriteString(w, explain.Printable(text.String())) // a client that is gone needs no answer
}

// fail shows an error.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, p problem) {
	s.showWith(w, r, p.Status, "problem.html", page{Title: p.Title, Body: p})
}

// fail shows an error on a page of the cell.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, p problem) {
	c.showWith(w, r, p.Status, "problem.html", page{Title: p.Title, Body: p})
}

// SQLSTATEs of the server: what a login may not do, a statement that took too long, and a write that is not taken.
const (
	statePermission = "42501"
	stateCanceled   = "57014"
	stateReadOnly   = "25006"
)

// failed shows an error of the ledger. What the schema says of a refusal has no value of a payload; any
// other text stays in the log.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, err error) {
	fault, refused := errors.AsType[*outbox.Fault](err)
	switch {
	case errors.Is(err, operator.ErrChanged):
		c.fail(w, r, changed)
	case errors.Is(err, operator.ErrOther):
		c.fail(w, r, other)
	case errors.Is(err, outbox.ErrCommitUnknown):
		c.log.ErrorContext(r.Context(), "it is not known whether an act was done", "path", pathOf(r), "error", err)
		c.fail(w, r, problem{http.StatusBadGateway, "It is not known whether it was done",
			"The answer of the database to the commit was lost. Send the same form again, until it is done or refused: that " +
				"answer holds after a failover too. The page of its subject, and the operator log, may show what no standby has."})
	case refused && outbox.SentinelOf(fault.SQLState) != nil:
		status, title := http.StatusConflict, "This is refused"
		if errors.Is(err, outbox.ErrNotAllowed) && r.PathValue("id") != "" {
			title = "The state of the payment does not allow this"
		} else if errors.Is(err, outbox.ErrNotFound) { // the payment, or its dead letter
			status, title = http.StatusNotFound, "There is nothing to do this to"
		}
		c.fail(w, r, problem{status, title, "Nothing was done. " + fault.Error()})
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", strconv.Itoa(int(busyRetry.Seconds())))
		c.fail(w, r, problem{http.StatusServiceUnavailable, "Too many pages are being read",
			"This console asks the database a bounded number of questions at once. Try again in some seconds, with a " +
				"narrower filter."})
	case errors.Is(err, outbox.ErrNotFound) && c.only == nil:
		c.fail(w, r, problem{http.StatusNotFound, "There is no such payment in cell " + c.cell.Setting,
			"Search in all cells, by the form above: by its outbox id, rail key, instruction id or the rail's own reference, " +
				"as a whole. " + keysUnsearched})
	case errors.Is(err, outbox.ErrNotFound):
		c.fail(w, r, problem{http.StatusNotFound, "There is no such payment",
			"Search by its outbox id, rail key, instruction id or the rail's own reference, as a whole. " + keysUnsearched})
	case errors.Is(err, outbox.ErrElsewhere):
		c.fail(w, r, problem{http.StatusNotFound, "This payment is in another cell", err.Error() + "."})
	case refused: // by a type of the server
		c.fail(w, r, problem{http.StatusBadRequest, "A value is not accepted", "Nothing was done. Check what you typed."})
	case errors.Is(err, outbox.ErrLockTimeout):
		c.fail(w, r, problem{http.StatusConflict, "Another session holds a lock", blockedAdvice(err)})
	case ledger.SQLState(err) == statePermission:
		c.fail(w, r, problem{http.StatusForbidden, "The database refuses this to the login of the console",
			"Nothing was done. The console acts as a member of railhead_operator: see RAILHEAD_OPERATOR_URL."})
	case refusesLogin(err):
		c.log.ErrorContext(r.Context(), "the database refuses the login of the console", "path", pathOf(r), "error", err)
		c.fail(w, r, problem{http.StatusBadGateway, "The database refuses the login of the console",
			"Nothing was done. Check the names and passwords in RAILHEAD_READER_URL and RAILHEAD_OPERATOR_URL."})
	case takesNoWrites(err):
		c.log.ErrorContext(r.Context(), "the database of the console can't be written to", "path", pathOf(r), "error", err)
		c.fail(w, r, problem{http.StatusBadGateway, "The database can't be written to",
			"Nothing was done. It is a standby, or default_transaction_read_only is on: have the connection strings of the " +
				"console name the primary."})
	case errors.Is(err, outbox.ErrInvalid), errors.Is(err, outbox.ErrUnanswerable):
		c.fail(w, r, problem{http.StatusBadRequest, "This can't be answered", "Check the values: " + err.Error()})
	case errors.Is(r.Context().Err(), context.DeadlineExceeded), errors.Is(err, errQueryTime),
		ledger.SQLState(err) == stateCanceled:
		c.fail(w, r, problem{http.StatusGatewayTimeout, "The database did not answer in time",
			"Try again, with a narrower filter. What an act did is on the page of its subject. railhead status shows whether " +
				"the database can be reached."})
	default:
		mark := rand.Text()[:8]
		c.log.ErrorContext(r.Context(), "a page could not be read", "path", pathOf(r), "mark", mark, "error", err)
		c.fail(w, r, problem{http.StatusBadGateway, "The database did not answer",
			"Try again. What an act did is on the page of its subject. The log of the console has the error under the mark " +
				mark + "."})
	}
}

// refusesLogin reports whether the server answered, and refused the login (ISO/IEC 9075: invalid authorization).
func refusesLogin(err error) bool { return strings.HasPrefix(ledger.SQLState(err), "28") }

// takesNoWrites reports whether the server answered, and takes no writes.
func takesNoWrites(err error) bool {
	return errors.Is(err, outbox.ErrReadOnly) || ledger.SQLState(err) == stateReadOnly
}

// blockedAdvice names the sessions that held the lock for which an act waited. No value of a payment is
// in what is known of them.
func blockedAdvice(err error) string {
	advice := "Nothing was done. Try again once that session has ended its transaction."
	blocked, named := errors.AsType[*operator.BlockedError](err)
	if !named {
		return advice
	}
	for _, blocker := range blocked.Blockers {
		advice += "\n" + explain.OneLine(blocker.String())
	}
	return advice
}
