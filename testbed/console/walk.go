package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/testbed/browser"
)

// Options say what is run.
type Options struct {
	Binaries string // the folder of railhead
	Programs browser.Programs
	Folder   string // of the pictures
	Height   int    // of a picture at most, in pixels
	Hand     string // the only one that goes through the steps; empty: all
	Rows     int    // of the archive whose pages are measured
	Root     string // of the data of the server; empty: /tmp
	Out      io.Writer
}

func (o Options) say(format string, args ...any) {
	fmt.Fprintf(o.Out, "console: "+format+"\n", args...)
}

// ErrBroken means that a page or an act is not as it has to be.
var ErrBroken = errors.New("the console is not as it has to be")

// ordinary is the number of payments that are paid without any trouble.
const ordinary = 300

// hand is one who goes through all steps.
type hand struct {
	name    string
	hand    browser.Hand
	scripts browser.Scripts
	judges  bool // the pages are judged too, in both schemes and on a phone
}

var hands = []hand{
	{"mouse", browser.Mouse{}, browser.WithScripts, true},
	{"keyboard", browser.Keyboard{}, browser.WithScripts, false},
	{"no-scripts", browser.Mouse{}, browser.WithoutScripts, false},
}

// Walk drives the console of an installation through all steps, with each hand. Its last line is what it is judged
// by.
func Walk(ctx context.Context, o Options) (err error) {
	begun := time.Now()
	w, err := newWorld(ctx, o, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end(o, err)) }()
	var who []string
	for _, each := range hands {
		who = append(who, each.name)
	}
	payments, err := w.fill(ctx, ordinary, who)
	if err != nil {
		return err
	}
	b, err := browser.Start(ctx, o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	o.say("ready after %s", time.Since(begun).Round(100*time.Millisecond))
	var sum tally
	for _, each := range hands {
		if o.Hand != "" && o.Hand != each.name {
			continue
		}
		sum.hands++
		walking := &walker{hand: each, names: payments[each.name], out: o, tally: &sum}
		if err := walking.all(ctx, w, b); err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
	}
	entering := &walker{hand: hands[0], names: payments[hands[0].name], out: o, tally: &sum}
	if err := entering.logins(ctx, w, b); err != nil {
		return fmt.Errorf("logins: %w", err)
	}
	if err := entering.overCells(ctx, w, b); err != nil {
		return fmt.Errorf("several cells: %w", err)
	}
	o.say("took %s", time.Since(begun).Round(100*time.Millisecond))
	o.say("hands=%d steps=%d audits=%d faults=%d", sum.hands, sum.steps, sum.audits, sum.faults)
	if sum.faults > 0 || sum.hands == 0 {
		return ErrBroken
	}
	return nil
}

// end ends the installation, and removes its folder if all went well.
func (w *world) end(o Options, err error) error {
	if closed := w.close(); err != nil || closed != nil {
		o.say("its logs are in %s", w.dir)
		return closed
	}
	return os.RemoveAll(w.dir)
}

// tally is what the last line says.
type tally struct{ hands, steps, audits, faults int }

// walker is one hand on its way.
type walker struct {
	hand
	names names
	base  string // of the console
	tab   *browser.Tab
	out   Options
	*tally
}

// faulty says what is not as it has to be.
func (k *walker) faulty(at string, faults ...string) {
	for _, fault := range faults {
		k.faults++
		k.out.say("%s: %s: %s", k.name, at, fault)
	}
}

func (k *walker) all(ctx context.Context, w *world, b *browser.Browser) (err error) {
	link, err := w.console(ctx, "console-"+k.name, "operate")
	if err != nil {
		return err
	}
	if k.tab, err = b.Open(browser.View{Scripts: k.scripts}); err != nil {
		return err
	}
	defer k.tab.Close()
	if err := k.login(ctx, link); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	if k.name == "keyboard" {
		k.keys()
	}
	begun, faults := time.Now(), k.faults
	for _, step := range Steps {
		k.steps++
		if err := k.step(step); err != nil {
			k.faulty(k.names.in(step.At)+" "+step.Link+step.Form, err.Error())
			if picture, err := k.tab.Picture(0); err == nil {
				file := filepath.Join(w.dir, fmt.Sprintf("%s-%d.png", k.name, k.faults))
				k.out.say("%s: a picture of it is %s: %v", k.name, file, os.WriteFile(file, picture, 0o600))
			}
		}
	}
	took := time.Since(begun).Round(100 * time.Millisecond)
	k.out.say("%s: %d steps in %s, %d faults", k.name, len(Steps), took, k.faults-faults)
	return nil
}

// baseOf is the address of the console that a link logs in to.
func baseOf(link string) string {
	base, _, _ := strings.Cut(link, "/login/")
	return base
}

// login uses the link, and waits for the first page, which the answer leads to.
func (k *walker) login(ctx context.Context, link string) error {
	k.base = baseOf(link)
	if _, err := k.tab.Go(link); err != nil {
		return err
	}
	if k.judges {
		k.judge("the page of the link")
	}
	if status, err := k.tab.Send(k.hand.hand, "main form", "", nil); err != nil || status != 200 {
		return fmt.Errorf("the button: status %d: %w", status, err)
	}
	if err := k.tab.Arrives(ctx, "/"); err != nil {
		return err
	}
	k.faulty("login", k.tab.Faults()...)
	return nil
}

func (k *walker) step(s Step) error {
	at := k.names.in(s.At)
	status, err := k.tab.Go(k.base + at)
	if err != nil {
		return err
	}
	leads := at
	if s.Link != "" || s.Form != "" {
		if status != 200 {
			return fmt.Errorf("status %d", status)
		}
		leads = k.names.in(s.Leads)
		if status, err = k.do(s); err != nil {
			return err
		}
	}
	path, err := k.tab.Path()
	if err != nil {
		return err
	}
	text, err := k.tab.Text()
	if err != nil {
		return err
	}
	where := s.Route + " " + path
	if want := cmp.Or(s.Status, 200); status != want {
		k.faulty(where, fmt.Sprintf("status %d, want %d: %.300s", status, want, strings.Join(strings.Fields(text), " ")))
	}
	if !strings.HasPrefix(path, leads) {
		k.faulty(where, "want "+leads)
	}
	for _, sees := range s.Sees {
		if sees = k.names.in(sees); !strings.Contains(strings.ToLower(text), strings.ToLower(sees)) {
			k.faulty(where, fmt.Sprintf("it lacks %q", sees))
		}
	}
	k.faulty(where, k.tab.Faults()...)
	if k.judges {
		k.judge(where)
	}
	return nil
}

// do follows the link, or sends the form.
func (k *walker) do(s Step) (int, error) {
	if s.Link != "" {
		return k.hand.hand.Follow(k.tab, k.names.in(s.Link))
	}
	fields := slices.Clone(s.Fields)
	for n := range fields {
		fields[n].Value = k.names.in(fields[n].Value)
	}
	return k.tab.Send(k.hand.hand, k.names.in(s.Form), s.Button, fields)
}

// views are how the pages are judged.
var views = []browser.View{
	{Width: 1440, Height: 900, Scheme: browser.Light}, {Width: 1440, Height: 900, Scheme: browser.Dark},
	{Width: 390, Height: 844, Scheme: browser.Light}, {Width: 390, Height: 844, Scheme: browser.Dark},
}

// judge has axe-core look at the page in each view, and holds it to the width of the window.
func (k *walker) judge(where string) {
	for _, view := range slices.Backward(views) { // the first one stays
		at := fmt.Sprintf("%s, %d pixels, %s", where, view.Width, view.Scheme)
		if err := k.tab.Look(view); err != nil {
			k.faulty(at, err.Error())
			return
		}
		audit, err := k.tab.Audit()
		wide, other := k.tab.Overflow()
		if err = errors.Join(err, other); err != nil {
			k.faulty(at, err.Error())
		}
		k.audits++
		k.faulty(at, slices.Concat(audit, wide, k.tab.Faults())...)
	}
}
