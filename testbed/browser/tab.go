package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// Tab is one tab of the browser. Its methods are called one at a time.
type Tab struct {
	ctx context.Context
	end func()
	axe string

	mu     sync.Mutex
	faults []string
}

// within bounds each act in a tab.
const within = 20 * time.Second

// Close closes the tab.
func (t *Tab) Close() { t.end() }

func (t *Tab) do(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// hear notes what a page does wrong: exceptions, errors of its console, and what the policy for its content has
// refused.
func (t *Tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			said += " " + thrown.Description
		}
		t.note("exception: " + said)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var said []string
			for _, argument := range e.Args {
				said = append(said, string(argument.Value)+argument.Description)
			}
			t.note("console: " + strings.Join(said, " "))
		}
	case *log.EventEntryAdded:
		// What the server answers is judged where it is asked.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			t.note(string(e.Entry.Source) + ": " + e.Entry.Text)
		}
	case *audits.EventIssueAdded:
		if policy := e.Issue.Details.ContentSecurityPolicyIssueDetails; policy != nil {
			t.note("policy: " + policy.ViolatedDirective + " refuses " +
				strings.TrimSpace(string(policy.ContentSecurityPolicyViolationType)+" "+policy.BlockedURL))
		}
	}
}

func (t *Tab) note(fault string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, fault)
}

// Faults returns what pages did wrong since it was last called.
func (t *Tab) Faults() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	faults := t.faults
	t.faults = nil
	return faults
}

// Go opens an address, and returns the status of the answer.
func (t *Tab) Go(address string) (int, error) {
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	answer, err := chromedp.Run(ctx, chromedp.NavigateResponse(address))
	if err != nil {
		return 0, fmt.Errorf("opening a page: %w", withoutAddress(err))
	}
	if answer == nil { // a page of the browser itself
		return 0, nil
	}
	return int(answer.Status), nil
}

// withoutAddress is an error of a navigation without the address, which may have a secret in it.
func withoutAddress(err error) error {
	if failed, ok := errors.AsType[*chromedp.LoadError](err); ok {
		return errors.New(failed.ErrorText)
	}
	return err
}

// leads does what leads to another page, and returns the status of that.
func (t *Tab) leads(do chromedp.Action[chromedp.Void]) (int, error) {
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, do)
	if err != nil {
		return 0, withoutAddress(err)
	}
	if answer == nil { // a place on the same page
		return 200, nil
	}
	return int(answer.Status), nil
}

// ask evaluates an expression in the page, with arguments as %s for texts of JavaScript.
func ask[T any](t *Tab, expression string, arguments ...any) (T, error) {
	quoted := make([]any, len(arguments))
	for n, argument := range arguments {
		text, err := json.Marshal(argument)
		if err != nil {
			return *new(T), err
		}
		quoted[n] = string(text)
	}
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(expression, quoted...), chromedp.EvalAwaitPromise))
}

// run runs a script in the page.
func (t *Tab) run(script string) error {
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](script))
	return err
}

// Post sends a form to an address of the page's site, as a script of the page would, and returns the status of the
// answer.
func (t *Tab) Post(address, form string) (status int, err error) {
	return ask[int](t, `fetch(%s, {method: "POST", body: %s, redirect: "manual",
	  headers: {"Content-Type": "application/x-www-form-urlencoded"}}).then((answer) => answer.status)`, address, form)
}

// Path is the address of the page without its host.
func (t *Tab) Path() (string, error) { return ask[string](t, `location.pathname + location.search`) }

// Arrives waits until the page is at a path and shows all of the texts, for at most 10 s: what a page does that leads
// to another one by itself. A page that another one replaces at this moment can't be asked, which is no error here, and
// one that has just come may have its path and no text yet.
func (t *Tab) Arrives(ctx context.Context, path string, texts ...string) error {
	var at, text string
	var unasked error
	err := await.Until(ctx, 10*time.Second, "the page "+path, func() (bool, error) {
		if at, unasked = t.Path(); unasked == nil {
			text, unasked = t.Text()
		}
		lacks := func(want string) bool { return !strings.Contains(text, want) }
		return unasked == nil && at == path && !slices.ContainsFunc(texts, lacks), nil
	})
	if err != nil {
		return fmt.Errorf("%w: at %s: %w: %s", err, at, unasked, text)
	}
	return nil
}

// Back goes back to the page before, as the button of the browser does, and waits until it is loaded anew.
func (t *Tab) Back() error { return t.do(chromedp.NavigateBack()) }

// Cookies are the cookies that the browser sends to the site of the page.
func (t *Tab) Cookies() ([]*http.Cookie, error) {
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	got, err := chromedp.Call(ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		return nil, fmt.Errorf("reading the cookies: %w", err)
	}
	var cookies []*http.Cookie
	for _, one := range got.Cookies {
		cookies = append(cookies, &http.Cookie{Name: one.Name, Value: one.Value})
	}
	return cookies, nil
}

// Is evaluates an expression in the page, which may be a promise.
func (t *Tab) Is(expression string) (bool, error) { return ask[bool](t, expression) }

// Text is what a person reads on the page.
func (t *Tab) Text() (string, error) { return ask[string](t, `document.body.innerText`) }

// Quiet waits until the page has drawn what its scripts have loaded so far: two frames.
func (t *Tab) Quiet() error {
	_, err := ask[bool](t, `new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done(true))), 100))`)
	return err
}

// Timing is how long a page took from its request on, in milliseconds.
type Timing struct {
	Answered float64 // until the first byte of the answer
	Painted  float64 // until its first content was shown
}

// Timing returns how long the page took.
func (t *Tab) Timing() (Timing, error) {
	return ask[Timing](t, `new Promise((done) => new PerformanceObserver((list, all) => {
	  const first = list.getEntriesByName("first-contentful-paint")[0];
	  if (!first) return;
	  all.disconnect();
	  const page = performance.getEntriesByType("navigation")[0];
	  done({Answered: page.responseStart - page.requestStart, Painted: first.startTime});
	}).observe({type: "paint", buffered: true}))`)
}

// Picture is the page as a PNG, at most so many pixels high; 0 is the window alone.
func (t *Tab) Picture(most int) ([]byte, error) {
	size, err := ask[[]float64](t, `[innerWidth, document.documentElement.scrollHeight]`)
	if err != nil {
		return nil, err
	}
	beyond := most > 0
	var clip *page.Viewport
	if beyond {
		clip = &page.Viewport{Width: size[0], Height: min(size[1], float64(most)), Scale: 1}
	}
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	picture, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatPng, Clip: clip, CaptureBeyondViewport: &beyond,
	})
	return picture.Data, err
}
