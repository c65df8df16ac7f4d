package browser

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Hand is what a person uses a page with.
type Hand interface {
	// Follow activates a link or a button, and returns the status of the page that it leads to.
	Follow(t *Tab, selector string) (status int, err error)
	// Press activates what changes the page that is open.
	Press(t *Tab, selector string) error
	// Fill fills a field: a text, a date such as 2026-11-27, the value of a radio button or of a box to tick, or the
	// text of an option.
	Fill(t *Tab, selector, value string) error
}

// What kinds of fields are filled in ways of their own.
const (
	kindDate, kindRadio, kindBox, kindSelect = "date", "radio", "checkbox", "select-one"
)

// find is the start of an expression about the first element of a selector that is seen.
const find = `(() => { const e = [...document.querySelectorAll(%s)].find((e) => e.checkVisibility({visibilityProperty: true}));
  if (!e) return null; `

func kindOf(t *Tab, selector string) (string, error) {
	return ask[string](t, find+`return e.type || e.tagName.toLowerCase() })()`, selector)
}

// keys presses keys, one after the other. As of a keyboard, a key whose press a page has handled types nothing.
func keys(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for _, key := range text {
			events := kb.Encode(key)
			if len(events) == 3 { // pressed, typed and released, where the second does not depend on the first
				events[0].Text = events[1].Text
				events = slices.Delete(events, 1, 2)
			}
			for _, event := range events {
				if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, *event); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Mouse clicks.
type Mouse struct{}

// at scrolls to an element, and returns where it is clicked: at its left end or in its middle. It is an error if
// something covers it.
func (Mouse) at(t *Tab, selector string, left bool) (x, y float64, err error) {
	place, err := ask[[]float64](t, find+`e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
	  const r = e.getClientRects()[0], x = %s ? r.x + 12 : r.x + r.width / 2, y = r.y + r.height / 2;
	  const on = document.elementFromPoint(x, y);
	  return on && (e.contains(on) || on.contains(e)) ? [x, y] : [] })()`, selector, left)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("nothing to click at %s: %w", selector, err)
	case len(place) != 2:
		return 0, 0, fmt.Errorf("something covers %s, or it is not seen", selector)
	}
	return place[0], place[1], nil
}

// Follow clicks.
func (m Mouse) Follow(t *Tab, selector string) (int, error) {
	x, y, err := m.at(t, selector, false)
	if err != nil {
		return 0, err
	}
	return t.leads(chromedp.MouseClickXY(x, y))
}

// Press clicks.
func (m Mouse) Press(t *Tab, selector string) error {
	x, y, err := m.at(t, selector, false)
	if err != nil {
		return err
	}
	return t.do(chromedp.MouseClickXY(x, y))
}

// Fill clicks on the field, and types. The list of options is a window of the system, which is not clicked: the
// option is typed.
func (m Mouse) Fill(t *Tab, selector, value string) error {
	kind, err := kindOf(t, selector)
	if err != nil {
		return fmt.Errorf("no field %s: %w", selector, err)
	}
	switch kind {
	case kindRadio, kindBox:
		return m.Press(t, withValue(selector, value))
	case kindSelect:
		if _, err := ask[bool](t, find+`e.focus(); return true })()`, selector); err != nil {
			return err
		}
		return t.do(keys(value))
	}
	x, y, err := m.at(t, selector, kind == kindDate)
	if err != nil {
		return err
	}
	return t.do(chromedp.MouseClickXY(x, y), keys(typed(kind, value)))
}

// withValue selects the button or box of a field that has a value; a box without a value of its own is on.
func withValue(selector, value string) string {
	if value == "on" {
		return selector
	}
	return selector + fmt.Sprintf("[value=%q]", value)
}

// typed is what is typed for a value.
func typed(kind, value string) string {
	if day, err := time.Parse(time.DateOnly, value); kind == kindDate && err == nil {
		return day.Format("01022006")
	}
	return value
}

// Keyboard presses keys alone. What it passes with the Tab key has to show that it has the focus.
type Keyboard struct{}

// tabsMax bounds the presses of the Tab key until an element is reached.
const tabsMax = 400

// to presses Tab until the element has the focus.
func (Keyboard) to(t *Tab, selector string) error {
	type focus struct {
		There, Shown bool
		What         string
	}
	for range tabsMax {
		if err := t.do(keys(kb.Tab)); err != nil {
			return err
		}
		now, err := ask[focus](t, `(() => { const e = document.activeElement, s = getComputedStyle(e);
		  return {There: e.matches(%s), What: e.outerHTML.slice(0, 80),
		    Shown: e === document.body || s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1} })()`, selector)
		if err != nil {
			return err
		}
		if !now.Shown {
			t.note("focus: not seen on " + now.What)
		}
		if now.There {
			return nil
		}
	}
	return fmt.Errorf("%d presses of the Tab key do not lead to %s", tabsMax, selector)
}

// Follow goes there by the Tab key, and presses Enter.
func (k Keyboard) Follow(t *Tab, selector string) (int, error) {
	if err := k.to(t, selector); err != nil {
		return 0, err
	}
	return t.leads(keys(kb.Enter))
}

// Press goes there by the Tab key, and presses Enter.
func (k Keyboard) Press(t *Tab, selector string) error {
	if err := k.to(t, selector); err != nil {
		return err
	}
	return t.do(keys(kb.Enter))
}

// Fill goes to the field by the Tab key, and types. Of radio buttons the Tab key reaches one, and the arrows the
// others.
func (k Keyboard) Fill(t *Tab, selector, value string) error {
	kind, err := kindOf(t, selector)
	if err != nil {
		return fmt.Errorf("no field %s: %w", selector, err)
	}
	if kind == kindBox {
		if err := k.to(t, withValue(selector, value)); err != nil {
			return err
		}
		return t.do(keys(" "))
	}
	if err := k.to(t, selector); err != nil {
		return err
	}
	switch kind {
	case kindRadio:
		for range 10 {
			if err := t.do(keys(" ")); err != nil {
				return err
			}
			chosen, err := ask[string](t, `document.activeElement.value`)
			if err != nil || chosen == value {
				return err
			}
			if err := t.do(keys(kb.ArrowDown)); err != nil {
				return err
			}
		}
		return fmt.Errorf("the arrows do not reach %s of %s", value, selector)
	default:
		return t.do(keys(typed(kind, value)))
	}
}

// Type types keys where the focus is.
func (t *Tab) Type(text string) error { return t.do(keys(text)) }

// Enter presses Enter where the focus is, which leads to another page.
func (t *Tab) Enter() (status int, err error) { return t.leads(keys(kb.Enter)) }

// Chosen is the address of the first link in the row of a list that has the focus.
func (t *Tab) Chosen() (string, error) {
	return ask[string](t, `document.activeElement.closest("tr").querySelector("a").getAttribute("href")`)
}

// folded returns the summary that opens a form, if the form is folded away.
func (t *Tab) folded(form string) (summary string, err error) {
	closed, err := ask[bool](t, `(() => { const e = document.querySelector(%s); if (!e) throw new Error("there is no such form");
	  const d = e.closest("details"); return Boolean(d && !d.open) })()`, form)
	if err != nil {
		return "", fmt.Errorf("the form %s: %w", form, err)
	}
	if !closed {
		return "", nil
	}
	return "details:has(" + form + ") > summary", nil
}

// Field is a field of a form by its name, and what is filled in. A name that ends with a hyphen is the beginning of
// the field's, of which each page has its own.
type Field struct{ Name, Value string }

// Send fills a form and sends it by a button, or by its only one if none is named, and returns the status of the
// answer. A form that is folded away is opened first.
func (t *Tab) Send(hand Hand, form, button string, fields []Field) (int, error) {
	summary, err := t.folded(form)
	if err != nil {
		return 0, err
	}
	if summary != "" {
		if err := hand.Press(t, summary); err != nil {
			return 0, err
		}
	}
	for _, field := range fields {
		is := "="
		if strings.HasSuffix(field.Name, "-") {
			is = "^="
		}
		if err := hand.Fill(t, fmt.Sprintf("%s [name%s%q]", form, is, field.Name), field.Value); err != nil {
			return 0, err
		}
	}
	return hand.Follow(t, form+" "+cmp.Or(button, `button:not([type="button"])`))
}
