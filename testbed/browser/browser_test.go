package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// start starts a browser for the test, or skips it where there is none.
func start(t *testing.T) *Browser {
	t.Helper()
	if os.Getenv(EnvWithout) != "" {
		t.Skip(EnvWithout + " is set")
	}
	programs, err := Find(t.Context(), "../..")
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := Start(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// spoilt is a page with one fault of each kind that has to be found.
const spoilt = `<!doctype html><html lang="en"><title>spoilt</title>
<script src="/script.js"></script>
<body><main><h1>spoilt</h1><p style="color: red">inline</p>
<p class="pale">pale on white</p><p class="wide"><a class="bare" href="#x">bare</a></p></main></body></html>`

var spoiltFiles = map[string]string{
	"/script.js": `console.error("said by the page"); setTimeout(() => { throw new Error("thrown by the page") });
		document.head.insertAdjacentHTML("beforeend", '<link rel="stylesheet" href="/style.css">')`,
	"/style.css": `.pale { color: #ddd; background: #fff } .wide { width: 2000px } .bare:focus { outline: none }`,
}

// TestFaultsAreFound: what a page does wrong is reported, each kind of it.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	b := start(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		if file, ok := spoiltFiles[r.URL.Path]; ok {
			kinds := map[string]string{"/script.js": "text/javascript", "/style.css": "text/css"}
			w.Header().Set("Content-Type", kinds[r.URL.Path])
			fmt.Fprint(w, file)
			return
		}
		fmt.Fprint(w, spoilt)
	}))
	t.Cleanup(server.Close)
	tab, err := b.Open(View{Width: 390, Height: 800})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if status, err := tab.Go(server.URL); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	said := strings.Join(tab.Faults(), "\n")
	audit, err := tab.Audit()
	if err != nil {
		t.Fatal(err)
	}
	wide, err := tab.Overflow()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Keyboard{}).Follow(tab, ".bare"); err != nil {
		t.Fatal(err)
	}
	said += "\n" + strings.Join(slices.Concat(audit, wide, tab.Faults()), "\n")
	for _, want := range []string{
		"said by the page", "thrown by the page", "policy: style-src", "axe color-contrast", "pixels wide", `class="wide"`,
		"focus: not seen on <a class=\"bare\"",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it lacks %q:\n%s", want, said)
		}
	}
}

// form has a field of each kind.
const form = `<!doctype html><html lang="en"><title>form</title><body><a href="/elsewhere">elsewhere</a>
<details><summary>open</summary><form action="/sent"><input name="text"><input type="date" name="day">
<label><input type="radio" name="found" value="yes"> yes</label><label><input type="radio" name="found" value="no"> no</label>
<input type="checkbox" name="box"><input type="checkbox" name="id" value="1"><input type="checkbox" name="id" value="2">
<select name="state"><option>ANY</option><option>PENDING</option></select>
<button>send</button></form></details></body></html>`

// TestHands: mouse and keyboard fill a form that is folded away, with scripts and without, and the server gets
// what was filled in.
func TestHands(t *testing.T) {
	t.Parallel()
	b := start(t)
	got := make(chan url.Values, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sent" {
			got <- r.URL.Query()
		}
		fmt.Fprint(w, form)
	}))
	t.Cleanup(server.Close)
	want := url.Values{
		"text": {"why not"}, "day": {"2026-11-27"}, "found": {"no"}, "box": {"on"}, "id": {"2"}, "state": {"PENDING"},
	}
	for name, hand := range map[string]Hand{"mouse": Mouse{}, "keyboard": Keyboard{}} {
		for _, scripts := range []Scripts{WithScripts, WithoutScripts} {
			t.Run(fmt.Sprint(name, scripts), func(t *testing.T) {
				tab, err := b.Open(View{Scripts: scripts})
				if err != nil {
					t.Fatal(err)
				}
				defer tab.Close()
				if _, err := tab.Go(server.URL); err != nil {
					t.Fatal(err)
				}
				fields := []Field{{"text", "why not"}, {"day", "2026-11-27"}, {"found", "no"}, {"box", "on"}, {"id", "2"},
					{"state", "PENDING"}}
				if status, err := tab.Send(hand, "form", "", fields); err != nil || status != http.StatusOK {
					t.Fatal(status, err)
				}
				if sent := <-got; sent.Encode() != want.Encode() {
					t.Errorf("sent %v, want %v", sent, want)
				}
				if status, err := hand.Follow(tab, `a[href="/elsewhere"]`); err != nil || status != http.StatusOK {
					t.Fatal(status, err)
				}
				if path, err := tab.Path(); err != nil || path != "/elsewhere" {
					t.Errorf("at %s, %v", path, err)
				}
			})
		}
	}
}

// TestArrives: a page that leads to another one by itself is waited for, at whatever moment it is asked, and one
// that does not come is an error that names the page that is there.
func TestArrives(t *testing.T) {
	t.Parallel()
	b := start(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leads" {
			fmt.Fprint(w, `<!doctype html><title>leads</title><meta http-equiv="refresh" content="0; url=/there"><body>wait`)
			return
		}
		fmt.Fprint(w, `<!doctype html><title>there</title><body>`)
		w.(http.Flusher).Flush()
		time.Sleep(5 * time.Millisecond)
		fmt.Fprint(w, `you are here`)
	}))
	t.Cleanup(server.Close)
	tab, err := b.Open(View{})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	for range 8 {
		if _, err := tab.Go(server.URL + "/leads"); err != nil {
			t.Fatal(err)
		}
		if err := tab.Arrives(t.Context(), "/there", "you are here"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := tab.Arrives(ctx, "/elsewhere"); err == nil || !strings.Contains(err.Error(), "at /there") {
		t.Errorf("a page that does not come: %v", err)
	}
}
