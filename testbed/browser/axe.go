package browser

import (
	"fmt"
	"strings"
)

// Audit returns what axe-core finds on the page of serious or critical impact: each rule with the elements that
// break it. The size of what is clicked is among the rules, for phones.
func (t *Tab) Audit() ([]string, error) {
	there, err := ask[bool](t, `Boolean(window.axe)`)
	if err != nil {
		return nil, err
	}
	if !there {
		if err := t.run(t.axe); err != nil {
			return nil, fmt.Errorf("loading axe-core: %w", err)
		}
	}
	type violation struct {
		ID, Impact, Help string
		Nodes            []string
	}
	found, err := ask[[]violation](t, `axe.run(document, {resultTypes: ["violations"], rules: {"target-size": {enabled: true}}})
	  .then((r) => r.violations.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help,
	    Nodes: v.nodes.slice(0, 5).map((n) => n.target.join(" ") + (n.any[0] ? " (" + n.any[0].message + ")" : ""))})))`)
	if err != nil {
		return nil, fmt.Errorf("axe-core: %w", err)
	}
	var all []string
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			all = append(all, fmt.Sprintf("axe %s (%s): %s: %s", v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "; ")))
		}
	}
	return all, nil
}

// Overflow names the elements that make the page wider than its window. What scrolls within a box of its own is
// none.
func (t *Tab) Overflow() ([]string, error) {
	return ask[[]string](t, `(() => {
	  if (document.documentElement.scrollWidth <= innerWidth) return [];
	  const scrolls = (e) => { for (let p = e.parentElement; p; p = p.parentElement)
	    if (/auto|scroll|hidden/.test(getComputedStyle(p).overflowX) && p !== document.body) return true; return false };
	  const wide = [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e));
	  return ["the page is " + document.documentElement.scrollWidth + " pixels wide",
	    ...wide.slice(0, 5).map((e) => e.outerHTML.slice(0, 80))] })()`)
}
