package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// cellReader is a cell of several.
type cellReader struct {
	hostileReader
	status func(context.Context) (reader.Status, error)
	find   func(context.Context) ([]reader.Found, error)
}

func (r cellReader) Status(ctx context.Context) (reader.Status, error) { return r.status(ctx) }

func (r cellReader) Find(ctx context.Context, _ string) ([]reader.Found, error) { return r.find(ctx) }

// cellWith is a cell whose state has one rail with payments that wait.
func cellWith(setting string, waiting int64) Cell {
	return Cell{Setting: setting, Schema: "railhead", Reader: cellReader{
		hostileReader{func(*reader.Timeline) {}},
		func(context.Context) (reader.Status, error) {
			return reader.Status{Now: time.Now(), Rails: []reader.RailStatus{
				{RailType: "bank", Pending: waiting, OldestDueMS: 1000 * waiting},
			}}, nil
		},
		func(context.Context) ([]reader.Found, error) { return nil, &reader.ElsewhereError{} },
	}}
}

// readBy is a cell with another reading of its state.
func readBy(cell Cell, status func(context.Context) (reader.Status, error)) Cell {
	one := cell.Reader.(cellReader)
	one.status = status
	cell.Reader = one
	return cell
}

// several is a console of cells whose state was read once.
func several(t *testing.T, cells ...Cell) *Site {
	t.Helper()
	s, err := NewSite(Config{}, []Login{NewLink(Operate)}, cells, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.consoles {
		if err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// browserOf is a browser with the cookies of a console; none: no person has logged in with it.
type browserOf struct {
	*testing.T
	*Site
	cookies []*http.Cookie
}

func (s *Site) enter(t *testing.T) browserOf {
	t.Helper()
	return browserOf{t, s, []*http.Cookie{s.cookie(s.sessions.begin(Person{Name: "ann", Role: Operate}))}}
}

func (b browserOf) send(method, path string, form url.Values) *httptest.ResponseRecorder {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), method, path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, cookie := range b.cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

func (b browserOf) get(path string, status int, texts ...string) string {
	b.Helper()
	w := b.send(http.MethodGet, path, nil)
	if w.Code != status {
		b.Errorf("%s: status %d, want %d: %s", path, w.Code, status, w.Body)
	}
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			b.Errorf("%s lacks %q: %s", path, text, w.Body)
		}
	}
	return w.Body.String()
}

// TestAllCells: the first page has the state of each cell, a link to it, and the sum of open letters. A cell that
// does not answer is named there with the reason, and takes nothing from the others.
func TestAllCells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := readBy(cellWith("NORTH", 0), func(ctx context.Context) (reader.Status, error) {
			<-ctx.Done()
			return reader.Status{}, ctx.Err()
		})
		begun := time.Now()
		s := several(t, cellWith("WEST", 7), cellWith("EAST", 11), hangs)
		if took := time.Since(begun); took != s.config.RequestTimeout {
			t.Errorf("the readings took %s", took)
		}
		b := s.enter(t)
		for _, c := range s.consoles[:2] {
			if err := c.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		begun = time.Now()
		b.get("/", 200, "away, and was not read yet: its database did not answer in time",
			"Not all cells are shown as they are now: NORTH", "<b>4</b>, without those of NORTH, which was not read yet",
			`<a href="/cells/WEST/">WEST</a></th>`, `<a href="/cells/EAST/payments?state=PENDING">11</a>`,
			`<a href="/cells/WEST/dead-letters" class="alarm">2</a>`, ">7.0s</td>", "up to date")
		b.get("/state.json", 200, `"stale":true`)
		b.get("/cells/WEST/", 200, "Overview", "State as of", `aria-current="true">WEST</a>`)
		b.get("/cells/NORTH/", 503, "The state of the cell was not read yet")
		b.get("/cells/NORTH/payments", 200) // what is asked of it now is answered by it
		if took := time.Since(begun); took != 0 {
			t.Errorf("the pages took %s", took)
		}

		time.Sleep(staleAfter + time.Second)
		if err := s.consoles[1].refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		page := b.get("/", 200, "Not all cells are shown as they are now: WEST, NORTH", "stale: a reading takes long")
		if strings.Count(page, "up to date") != 1 {
			t.Errorf("EAST alone is up to date: %s", page)
		}
	})
}

// TestCellComesBack: a cell is shown as away with its first failure, with the numbers that it had, and no longer
// once it was read. A console is ready while one of its cells is read.
func TestCellComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken error
		west := readBy(cellWith("WEST", 7), func(context.Context) (reader.Status, error) {
			return reader.Status{Now: time.Now()}, broken
		})
		s := several(t, west, cellWith("EAST", 1))
		b := s.enter(t)
		b.get("/", 200, "Every cell was read in the last 20s")
		broken = errors.New("dial tcp 10.1.2.3:5432: SECRET")
		for _, wait := range []time.Duration{0, time.Minute} {
			time.Sleep(wait)
			for _, c := range s.consoles {
				if err := c.refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			page := b.get("/", 200, "away: its database did not answer; the log of the console has the error")
			if strings.Contains(page, "SECRET") || strings.Contains(page, "10.1.2.3") {
				t.Errorf("the page has the text of the error: %s", page)
			}
		}
		if err := s.Ready(); err != nil {
			t.Errorf("not ready, though EAST was read: %v", err)
		}
		time.Sleep(time.Minute)
		if s.Ready() == nil {
			t.Error("ready, though no cell was read")
		}
		broken = fmt.Errorf("reading: %w", &pgconn.PgError{Code: statePermission})
		if err := s.consoles[0].refresh(t.Context()); err != nil {
			t.Errorf("a cell with the login of another role ends the console: %v", err)
		}
		b.get("/", 200, "has to be a member of railhead_readonly")
		broken = nil
		for _, c := range s.consoles {
			if err := c.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.get("/", 200, "Every cell was read")
	})
}

// TestStreamOfACell: the live stream of one of several cells lasts longer than a page may take, and is no use of its
// session.
func TestStreamOfACell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := several(t, cellWith("WEST", 1), cellWith("EAST", 1))
		f, over := follow(t.Context(), s.consoles[1], s.sessions.begin(Person{Name: "ann", Role: Read}))
		time.Sleep(4 * s.config.RequestTimeout)
		synctest.Wait()
		if n := f.events("state"); n < 6 {
			t.Errorf("%d states in a minute", n)
		}
		time.Sleep(s.config.SessionIdle)
		synctest.Wait()
		select {
		case <-over:
		default:
			t.Error("the stream keeps its session in force")
		}
	})
}

// TestUnknownCell: an address of no cell is no page, and answers to a browser without a session name no cell.
func TestUnknownCell(t *testing.T) {
	t.Parallel()
	s := several(t, cellWith("WEST", 1), cellWith("EAST", 1))
	b, stranger := s.enter(t), browserOf{t, s, nil}
	for _, path := range []string{
		"/cells/NORTH", "/cells/NORTH/", "/cells/west/", "/cells/", "/payments", "/live", "/cells/WEST/cells",
	} {
		b.get(path, 404, "no such page")
	}
	for path, to := range map[string]string{
		"/cells/WEST": "/cells/WEST/", "/cells/EAST/search?id=": "/cells/EAST/payments", "/search?id=": "/",
		"/cells/EAST/payments/INV-1": "/cells/EAST/search?id=INV-1",
	} {
		if w := b.send(http.MethodGet, path, nil); w.Code != 303 || w.Header().Get("Location") != to {
			t.Errorf("%s leads to %q with status %d, want %q", path, w.Header().Get("Location"), w.Code, to)
		}
	}
	for _, path := range []string{
		"/", "/state.json", "/search?id=x", "/cells/WEST", "/cells/WEST/", "/cells/WEST/live", "/cells/NORTH/",
	} {
		if page := stranger.get(path, 401, "Log in"); strings.Contains(page, "WEST") || strings.Contains(page, "EAST") {
			t.Errorf("%s names a cell: %s", path, page)
		}
	}
	for _, below := range []string{
		"", "/", "/payments", "/payments?x=1", "/live", "/none", "//payments", "/payments/x/cancel",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
			is, isNot := stranger.send(method, "/cells/EAST"+below, nil), stranger.send(method, "/cells/NONE"+below, nil)
			says := fmt.Sprint(is.Code, is.Header(), is.Body)
			if other := fmt.Sprint(isNot.Code, isNot.Header(), isNot.Body); strings.ReplaceAll(says, "EAST", "NONE") != other {
				t.Errorf("%s %s says whether there is a cell: %s, and %s", method, below, says, other)
			}
		}
	}
}

// TestLoginLeadsBack: a login leads to the page of a cell that was asked for before it, and to no other address.
func TestLoginLeadsBack(t *testing.T) {
	t.Parallel()
	link := NewLink(Read)
	enter := func(s *Site, kept ...*http.Cookie) string {
		*link = *NewLink(Read)
		b := browserOf{t, s, kept}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login/link",
			strings.NewReader(url.Values{"secret": {link.secret}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = "127.0.0.1:1"
		for _, cookie := range b.cookies {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		_, to, _ := strings.Cut(w.Body.String(), `content="0;url=`)
		to, _, _ = strings.Cut(to, `"`)
		return to
	}
	s, err := NewSite(Config{}, []Login{link}, []Cell{cellWith("WEST", 1), cellWith("EAST", 1)}, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := browserOf{t, s, nil}.send(http.MethodGet, "/cells/WEST/payments?state=PENDING", nil)
	kept := w.Result().Cookies()
	if len(kept) != 1 || !kept[0].HttpOnly || kept[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("kept: %v", kept)
	}
	if got := enter(s, kept...); got != "/cells/WEST/payments?state=PENDING" {
		t.Errorf("the login leads to %q", got)
	}
	for _, wrong := range []string{"", "//evil.example", "https://evil.example/cells/WEST/", "/cells/NORTH/", "/logout",
		`/cells/WEST/\evil`, "/cells/WEST/\r\nx", "/cells/WEST/" + strings.Repeat("x", returnMax)} {
		if got := enter(s, s.returnCookie(wrong)); got != "/" {
			t.Errorf("with %q kept the login leads to %q", wrong, got)
		}
	}
	for _, path := range []string{"/", "/payments", "/cells/WEST/live", "/cells/NORTH/live"} {
		if kept := (browserOf{t, s, nil}).send(http.MethodGet, path, nil).Result().Cookies(); len(kept) > 0 {
			t.Errorf("%s is kept: %v", path, kept)
		}
	}
	one := consoleWith(t, nil, NewCertificates(Roles{}))
	if kept := one.try(httptest.NewRequest(http.MethodGet, "/payments", nil)).Cookies(); len(kept) > 0 {
		t.Errorf("a console of one cell keeps %v", kept)
	}
}

// TestSiteFaults: every fault of the cells is named at once.
func TestSiteFaults(t *testing.T) {
	t.Parallel()
	acting := cellWith("EAST", 1)
	acting.Operator, acting.DatabaseSizeLimit = anOperator{}, -1
	_, err := NewSite(Config{Cell: "railhead"}, nil,
		[]Cell{cellWith("WEST", 1), cellWith("WEST", 1), cellWith("w", 1), acting}, nil, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("no fault")
	}
	for _, text := range []string{
		"of its own", "WEST is named twice", `"w"`, "EAST differs from WEST", "must not be negative", "no way to log in",
	} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("it lacks %q: %v", text, err)
		}
	}
	if _, err := NewSite(Config{}, []Login{NewLink(Read)}, nil, nil, nil); err == nil {
		t.Error("a console of no cell")
	}
}
