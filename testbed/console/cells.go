package console

import (
	"context"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/testbed/browser"
)

const (
	empty   = "empty"                      // the schema of a second cell, which has nothing
	nowhere = "postgres://x@127.0.0.1:1/x" // what leads to a cell that is away
)

// cellSteps are steps over several cells in one console: WEST has the payments, EAST has none, and NORTH is away.
var cellSteps = []Step{
	{Route: "all cells", At: "/cells/WEST/rails", Link: `nav[aria-label="Cells"] a[href="/"]`, Leads: "/",
		Sees: []string{"All cells", "NORTH", "away", "not all cells are shown as they are now: NORTH", "up to date"}},
	{Route: "a cell", At: "/", Link: `main a[href="/cells/WEST/"]`, Leads: "/cells/WEST/",
		Sees: []string{"Railhead WEST", "State as of", "their incident 88", "AC04"}},
	{Route: "another cell", At: "/cells/WEST/", Link: `nav[aria-label="Cells"] a[href="/cells/EAST/"]`,
		Leads: "/cells/EAST/", Sees: []string{"Railhead EAST", "State as of", "No rails yet"}},
	{Route: "a page of a cell", At: "/cells/WEST/", Link: `nav a[href="/cells/WEST/payments"]`,
		Leads: "/cells/WEST/payments", Sees: []string{"50 shown"}},
	{Route: "a filter", At: "/cells/WEST/payments", Form: "form.filter", Leads: "/cells/WEST/payments?state=&rail=card",
		Fields: []browser.Field{{Name: "rail", Value: "card"}}, Sees: []string{"{refused}"}},
	{Route: "a search", At: "/cells/EAST/", Form: `form[role="search"]`,
		Fields: []browser.Field{{Name: "id", Value: "{paid.id}"}}, Leads: "/search?id=",
		Sees: []string{"Cell NORTH was not asked", "{paid}", "WEST"}},
	{Route: "what was found", At: "/search?id={paid.id}", Link: `a[href="/cells/WEST/payments/{paid}"]`,
		Leads: "/cells/WEST/payments/{paid}", Sees: []string{"Railhead WEST", "history"}},
	{Route: "not found", At: "/search?id=none", Status: 503, Sees: []string{"Cell NORTH was not asked", "None with this id"}},
	{Route: "an act", At: "/cells/WEST/rails/bank", Form: `form[action*="/pause"]`, Fields: []browser.Field{because},
		Leads: "/cells/WEST/rails/bank", Sees: []string{"Paused.", "as agreed on the phone"}},
	{Route: "its end", At: "/cells/WEST/rails/bank", Form: `form[action*="/resume"]`, Fields: []browser.Field{because},
		Leads: "/cells/WEST/rails/bank", Sees: []string{"Resumed."}},
	{Route: "a cell that is away", At: "/cells/NORTH/", Status: 503, Sees: []string{"was not read yet"}},
	{Route: "no cell", At: "/cells/SOUTH/", Status: 404, Sees: []string{"no such page"}},
}

// overCells goes through a console of several cells. A login leads back to the page that was asked for before it.
func (k *walker) overCells(ctx context.Context, w *world, b *browser.Browser) error {
	begun, faults := time.Now(), k.faults
	admin := w.server.URL(install.Database, pgserver.Superuser)
	if _, err := install.Prepare(ctx, admin, empty, install.Logins(), install.NoPassword); err != nil {
		return err
	}
	link, err := w.console(ctx, "console-cells", "operate", "RAILHEAD_CELLS=WEST,EAST,NORTH",
		"RAILHEAD_CELL_EAST="+empty,
		"RAILHEAD_READER_URL_WEST="+w.url(install.Readonly), "RAILHEAD_OPERATOR_URL_WEST="+w.url(install.Operator),
		"RAILHEAD_READER_URL_EAST="+w.url(install.Readonly), "RAILHEAD_OPERATOR_URL_EAST="+w.url(install.Operator),
		"RAILHEAD_READER_URL_NORTH="+nowhere, "RAILHEAD_OPERATOR_URL_NORTH="+nowhere)
	if err != nil {
		return err
	}
	if k.tab, err = b.Open(browser.View{}); err != nil {
		return err
	}
	defer k.tab.Close()
	if err := k.loginBack(ctx, link); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	for _, step := range cellSteps {
		k.steps++
		if err := k.step(step); err != nil {
			k.faulty(k.names.in(step.At)+" "+step.Link+step.Form, err.Error())
		}
	}
	k.out.say("%d steps over cells in %s, %d faults", len(cellSteps), time.Since(begun).Round(100*time.Millisecond),
		k.faults-faults)
	return nil
}

// loginBack asks for a page of a cell, logs in by the link, and waits for that page.
func (k *walker) loginBack(ctx context.Context, link string) error {
	const asked = "/cells/EAST/components"
	k.base = baseOf(link)
	if status, err := k.tab.Go(k.base + asked); err != nil || status != 401 {
		return fmt.Errorf("a page without a session: status %d: %w", status, err)
	}
	if _, err := k.tab.Go(link); err != nil {
		return err
	}
	if status, err := k.tab.Send(k.hand.hand, "main form", "", nil); err != nil || status != 200 {
		return fmt.Errorf("the button: status %d: %w", status, err)
	}
	err := k.tab.Arrives(ctx, asked)
	k.faulty("login", k.tab.Faults()...)
	return err
}
