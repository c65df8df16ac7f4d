package alertdrill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/promrun"
	"github.com/railhead-pay/railhead/testbed/browser"
)

// ClickOptions say what Clicks runs.
type ClickOptions struct {
	Root     string // the repository
	Binaries string // the folder of railhead and railsim
	Data     string // the folder for the data of the server; empty: /tmp
	Browser  browser.Programs
	Short    bool   // a few faults only, all of them at once
	Only     string // the faults of these names only, separated by |
	Say      func(format string, args ...any)
}

// ErrNotFound means that a cause, a runbook or an act was not found in the console.
var ErrNotFound = errors.New("the console does not lead to a cause, to a runbook or to an act")

// seenWithin bounds how long a fault may take until the console shows it: a payment that is near its expiry is shown
// once it has been pending for half a minute.
const seenWithin = 75 * time.Second

// mendedWithin bounds how long an act may take until its effect is in the database.
const mendedWithin = 30 * time.Second

// Clicks makes the faults of the alerts, one after the other, and goes from the first page of the console to the
// cause of each, to its runbook, and to the act that mends it, by a real browser. Its last line is what it is judged
// by.
func Clicks(ctx context.Context, o ClickOptions) (err error) {
	begun := time.Now()
	w, err := newWorld(ctx, o.Root, o.Binaries, o.Data, promrun.Programs{})
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, w.close()); err != nil {
			o.Say("its logs are in %s", w.dir)
			return
		}
		err = os.RemoveAll(w.dir)
	}()
	b, err := browser.Start(ctx, o.Browser)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	c := &clicker{ClickOptions: o, w: w, b: b}
	if c.here, err = c.visit(ctx, "console", w.url); err != nil {
		return err
	}
	defer c.here.tab.Close()
	steady := w.flow(ctx, "bank", 4)
	defer func() { err = errors.Join(err, steady()) }()
	o.Say("ready after %s", time.Since(begun).Round(time.Second))
	if err := c.all(ctx); err != nil {
		return err
	}
	o.Say("took %s", time.Since(begun).Round(time.Second))
	o.Say("faults=%d found=%d mended=%d most=%d", c.faults, c.found, c.mended, c.most)
	if c.found < c.faults || c.faults == 0 {
		return ErrNotFound
	}
	return nil
}

// clicker goes through the console of a world.
type clicker struct {
	ClickOptions
	w                           *world
	b                           *browser.Browser
	here                        visit
	faults, found, mended, most int
}

// visit is a console with a tab that is logged in to it.
type visit struct {
	base string
	tab  *browser.Tab
}

// made is a fault that was made, with its variables.
type made struct {
	fault
	route
	vars []string
}

// all makes each fault, looks at it, and heals it; in the short form all of them at once.
func (c *clicker) all(ctx context.Context) error {
	var chosen []made
	for _, f := range faults() {
		r, err := routeOf(f)
		if err != nil {
			return err
		}
		if (!c.Short || r.short) && named(c.Only, f.name) {
			chosen = append(chosen, made{fault: f, route: r})
		}
	}
	groups := [][]made{chosen}
	if !c.Short {
		groups = nil
		for _, one := range chosen {
			groups = append(groups, []made{one})
		}
	}
	for _, group := range groups {
		for n := range group {
			var err error
			if group[n].vars, err = group[n].inject(ctx, c.w); err != nil {
				return fmt.Errorf("%s: breaking it: %w", group[n].name, err)
			}
		}
		for _, one := range group {
			c.look(ctx, one)
		}
		if err := c.w.heal(); err != nil {
			return err
		}
		for _, one := range group {
			heal := one.fault.heal
			if one.route.heal != nil {
				heal = one.route.heal
			}
			if err := errors.Join(heal(ctx, c.w), ended(ctx, c.w, one.vars)); err != nil {
				return fmt.Errorf("%s: healing it: %w", one.name, err)
			}
		}
	}
	return nil
}

// look goes the route of a fault, and says what came of it.
func (c *clicker) look(ctx context.Context, one made) {
	c.faults++
	begun := time.Now()
	alerts := alertsOf(one.fault)
	v := c.here
	err := error(nil)
	if one.elsewhere != nil {
		server := one.elsewhere(c.w)
		url := func(role string) string { return server.URL(install.Database, "railhead_"+role+"_login") }
		if v, err = c.visit(ctx, "console-"+one.name, url); err == nil {
			defer v.tab.Close()
		}
	}
	if err == nil {
		err = c.walk(ctx, v, one, alerts)
	}
	if err != nil {
		c.Say("%s: %v", one.name, err)
		return
	}
	c.found++
	by := "mended by " + one.mend
	if one.act != nil {
		c.mended++
		by = "mended here by " + one.act.form
	}
	c.most = max(c.most, one.clicks(alerts))
	c.Say("%-34s %d clicks, %4.1f s; %s", one.name, one.clicks(alerts), time.Since(begun).Seconds(), by)
}

// walk looks for the cause until the console has read it, goes to the runbooks, and acts.
func (c *clicker) walk(ctx context.Context, v visit, one made, alerts []string) error {
	var last error
	err := await.Until(ctx, seenWithin, "the console to show it", func() (bool, error) {
		for _, alert := range alerts {
			if last = c.toRunbook(v, one, alert); last != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	if one.act == nil {
		return nil
	}
	return c.do(ctx, v, one)
}

// toRunbook goes from the first page to the cause, and on to the runbook of an alert.
func (c *clicker) toRunbook(v visit, one made, alert string) error {
	text, err := v.follow(append([]string{""}, one.cause...), one.vars)
	if err != nil {
		return err
	}
	for _, says := range one.says {
		if says = filled(says, one.vars); !strings.Contains(strings.ToLower(text), strings.ToLower(says)) {
			return fmt.Errorf("the page of the cause lacks %q:\n%s", says, text)
		}
	}
	if text, err = v.follow(one.toRunbook(alert), one.vars); err != nil {
		return err
	}
	if path, err := v.tab.Path(); err != nil || path != "/runbooks/"+alert || !strings.Contains(text, "What to do") {
		return fmt.Errorf("its links lead to %s, not to the runbook of %s: %w", path, alert, err)
	}
	return nil
}

// do goes back to the page of the cause, acts, and looks for the effect in the database.
func (c *clicker) do(ctx context.Context, v visit, one made) error {
	if err := one.act.before(ctx, c.w); err != nil {
		return err
	}
	if _, err := v.follow(append(append([]string{""}, one.cause...), one.act.links...), one.vars); err != nil {
		return fmt.Errorf("going to the act: %w", err)
	}
	var fields []browser.Field
	for _, field := range one.act.fields {
		fields = append(fields, browser.Field{Name: field.Name, Value: filled(field.Value, one.vars)})
	}
	status, err := v.tab.Send(browser.Mouse{}, one.act.form, "", fields)
	if err != nil {
		return fmt.Errorf("acting by %s: %w", one.act.form, err)
	}
	text, err := v.tab.Text()
	if err != nil || status != 200 || !strings.Contains(text, one.act.says) {
		return fmt.Errorf("the act by %s: status %d, and the page lacks %q: %w\n%s", one.act.form, status, one.act.says, err,
			text)
	}
	return await.Until(ctx, mendedWithin, "the act to have mended it", func() (bool, error) {
		var mended *bool
		err := c.w.admin.QueryRow(ctx, filled(one.act.check, one.vars)).Scan(&mended)
		return mended != nil && *mended, err
	})
}

// follow follows links, each a click; an empty one is the first page. It returns the text of the last page.
func (v visit) follow(links, vars []string) (string, error) {
	for _, link := range links {
		var status int
		var err error
		if link == "" {
			status, err = v.tab.Go(v.base + "/")
		} else {
			status, err = browser.Mouse{}.Follow(v.tab, filled(link, vars))
		}
		if err != nil || status != 200 {
			return "", fmt.Errorf("the link %s: status %d: %w", link, status, err)
		}
	}
	return v.tab.Text()
}

// visit starts a console, and logs in to it as an operator.
func (c *clicker) visit(ctx context.Context, name string, url func(role string) string) (v visit, err error) {
	file := filepath.Join(c.w.dir, name+".link")
	err = c.w.startAs(ctx, "console", name, "", "RAILHEAD_READER_URL="+url("readonly"),
		"RAILHEAD_OPERATOR_URL="+url("operator"), "RAILHEAD_METRICS_URL="+url("readonly"), "RAILHEAD_CONSOLE_OPERATE=true",
		"RAILHEAD_CONSOLE_LINK=operate", "RAILHEAD_CONSOLE_LINK_FILE="+file)
	if err != nil {
		return v, err
	}
	link, err := c.w.services[name].AwaitFile(ctx, file)
	if err != nil {
		return v, err
	}
	if v.tab, err = c.b.Open(browser.View{}); err != nil {
		return v, err
	}
	v.base, _, _ = strings.Cut(link, "/login/")
	if _, err = v.tab.Go(link); err == nil {
		_, err = v.tab.Send(browser.Mouse{}, "main form", "", nil)
	}
	if err == nil {
		err = v.tab.Arrives(ctx, "/")
	}
	if err != nil {
		v.tab.Close()
		return v, fmt.Errorf("logging in to the console: %w", err)
	}
	return v, nil
}
