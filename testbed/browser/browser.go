package browser

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
)

// Browser is one running Chromium.
type Browser struct {
	axe     string // the script
	profile string
	ctx     context.Context
	end     func()
}

// Start starts Chromium without a window. It ends with Close, and with the context.
func Start(ctx context.Context, programs Programs) (_ *Browser, err error) {
	axe, err := os.ReadFile(programs.Axe)
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(programs.Chromium), chromedp.UserDataDir(profile),
		// Its pages are ours alone, and in a container neither root nor a user has what its sandbox needs.
		chromedp.Flag("no-sandbox", true),
		// Fields for dates are typed in the order of this language.
		chromedp.Flag("lang", "en-US"), chromedp.Env("LANG=en_US.UTF-8", "LANGUAGE=en_US", "HOME="+profile),
		chromedp.Flag("hide-scrollbars", true),
		// What it goes back to is fetched anew, as where memory is short: a page that it kept is as it was left.
		chromedp.Flag("disable-back-forward-cache", true))
	allocated, endAll := chromedp.NewExecAllocator(ctx, options...)
	first, endFirst := chromedp.NewContext(allocated)
	b := &Browser{axe: string(axe), profile: profile, ctx: first, end: func() { endFirst(); endAll() }}
	if err := chromedp.Do(first); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Chromium: %w", err), b.Close())
	}
	return b, nil
}

// Close ends the browser, and removes its profile.
func (b *Browser) Close() error {
	err := chromedp.Cancel(b.ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	b.end()
	return errors.Join(err, os.RemoveAll(b.profile))
}

// Scheme is the colours that a person prefers.
type Scheme string

// The schemes.
const (
	Light Scheme = "light"
	Dark  Scheme = "dark"
)

// View is how a tab is looked at.
type View struct {
	Width, Height int64 // 0: 1440 by 900
	Scheme        Scheme
	// Scripts is whether pages may run scripts.
	Scripts Scripts
}

// Scripts is whether pages may run scripts.
type Scripts int

// With scripts is the default.
const (
	WithScripts Scripts = iota
	WithoutScripts
)

// Open opens a tab with cookies of its own, which has no page yet.
func (b *Browser) Open(view View) (*Tab, error) {
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t := &Tab{ctx: ctx, end: end, axe: b.axe}
	err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, audits.Enable, cdp.Empty{})
		return err
	}))
	if err == nil {
		err = chromedp.Listen(ctx, t.hear)
	}
	if err = errors.Join(err, t.Look(view)); err != nil {
		end()
		return nil, fmt.Errorf("opening a tab: %w", err)
	}
	return t, nil
}

// Look changes how the tab is looked at; scripts are allowed or not from the next page on.
func (t *Tab) Look(view View) error {
	if view.Width == 0 {
		view.Width, view.Height = 1440, 900
	}
	if view.Scheme == "" {
		view.Scheme = Light
	}
	return t.do(chromedp.EmulateViewport(view.Width, view.Height),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: string(view.Scheme)}},
			})
			if err != nil {
				return err
			}
			_, err = cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: view.Scripts == WithoutScripts})
			return err
		}))
}
