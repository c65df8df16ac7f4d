package console

import (
	"fmt"
	"strconv"

	"github.com/railhead-pay/railhead/testbed/browser"
)

// Step is one thing that a person does: to follow a link, to send a form, or to type an address. A new page or act
// of the console is a new line of the list below; TestStepsCoverRoutes fails without one.
type Step struct {
	Route  string // the pattern in console/routes.go that it ends at
	Act    string // the act of explain.Acts that it does; empty: none
	At     string // the address where it begins
	Link   string // selector of the link to follow
	Form   string // selector of the form to send; without Link and Form the address itself is what is tested
	Button string // selector, in the form, of the button that sends it; empty: it has one
	// Fields are filled in in this order, which has to be that of the form.
	Fields []browser.Field
	Leads  string   // how the address of the next page begins
	Status int      // of the next page; 0: 200
	Sees   []string // texts of it, in whatever case
	// Picture is the name of the picture of that page; empty: none is taken.
	Picture string
}

// because is the field of a reason.
var because = browser.Field{Name: "reason", Value: "as agreed on the phone"}

// act is a step that does an act on a payment, by the form on its page.
func act(name, payment, says string, fields ...browser.Field) Step {
	return Step{
		Route: "POST /payments/{id}/{act}", Act: name, At: "/payments/{" + payment + "}", Form: `form[action$="/` + name + `"]`,
		Fields: append(fields, because), Leads: "/payments/{" + payment + "}",
		Sees: []string{says, "as agreed on the phone", "operator"},
	}
}

// on is a step that does an act on a rail, a participant or an endpoint.
func on(subject, name, act, at, says string, fields ...browser.Field) Step {
	reason := because
	if name == "giro" {
		reason.Value = "their incident 88"
	}
	route := "POST /" + subject + "/{name}/{act}"
	if subject == "participant" { // its id is a parameter
		route = "POST /participant/{act}"
	}
	return Step{
		Route: route, At: at, Form: `form[action*="/` + act + `"]`,
		Fields: append(fields, reason), Leads: at, Sees: []string{says},
	}
}

// The dead letters of the hand, and the form for those that are ticked.
const (
	lettersOf   = "/dead-letters?participant={participant}"
	lettersForm = `#letters form[method="post"]`
)

// ticked is a step that does one act for several dead letters.
func ticked(act string, payments ...string) Step {
	step := Step{
		Route: "GET /dead-letters/orders/{form}", At: lettersOf, Form: lettersForm,
		Button: `button[formaction$="/` + act + `"]`, Leads: "/dead-letters/orders/", Sees: []string{fmt.Sprintf("%s: %d done", act, len(payments))},
	}
	for _, one := range payments {
		step.Fields = append(step.Fields, browser.Field{Name: "id-", Value: "{" + one + "}"})
	}
	step.Fields = append(step.Fields, because, browser.Field{Name: "count", Value: strconv.Itoa(len(payments))})
	return step
}

// letter is the alert of dead letters.
const letter = "RailheadDeadLettersGrowing"

// Steps are every page and every act. What is in braces is a payment of the hand: see kinds.
var Steps = []Step{
	{Route: "GET /{$}", At: "/payments", Link: "a.brand", Leads: "/", Picture: "overview",
		Sees: []string{"Overview", "waiting", "dead letters", "their incident 88", "outbox_pending_depth", "AC04"}},
	{Route: "GET /payments", At: "/", Link: `nav a[href="/payments"]`, Leads: "/payments", Picture: "payments",
		Sees: []string{"50 shown", "examined"}},
	{Route: "GET /payments", At: "/payments", Link: `a[rel="next"]`, Leads: "/payments?before=", Sees: []string{"order-"}},
	{Route: "GET /payments", At: "/payments", Form: "form.filter", Leads: "/payments?state=PENDING&rail=bank",
		Fields: []browser.Field{
			{Name: "state", Value: "PENDING"}, {Name: "rail", Value: "bank"}, {Name: "newer", Value: "1h"},
			{Name: "currency", Value: "EUR"}, {Name: "from", Value: "100"}, {Name: "to", Value: "1000"},
		},
		Sees: []string{"{due.id}", "{ordered.id}"}},
	{Route: "GET /payments", At: "/payments?state=NONE", Status: 400, Sees: []string{"no such state"}},
	{Route: "GET /payments/{id}", At: "/payments?rail=card", Link: `a[href="/payments/{refused}"]`,
		Leads: "/payments/{refused}", Picture: "payment-refused",
		Sees: []string{"refused", "AC04", "what can be done", "history", "payload, without its values"}},
	{Route: "GET /search", At: "/", Form: `form[role="search"]`, Fields: []browser.Field{{Name: "id", Value: "{parked.id}"}},
		Leads: "/payments/{parked}", Sees: []string{"outcome unknown", "{parked.amount}"}, Picture: "payment"},
	{Route: "GET /search", At: "/payments", Form: `form[role="search"]`, Fields: []browser.Field{{Name: "id", Value: "none"}},
		Leads: "/search?id=none", Status: 404, Sees: []string{"no such payment"}},
	{Route: "GET /runbooks/{alert}", At: "/", Link: `a[href="/runbooks/` + letter + `"]`, Leads: "/runbooks/" + letter,
		Sees: []string{letter, "Meaning"}, Picture: "runbook"},
	{Route: "GET /dead-letters", At: "/", Link: "#badge", Leads: "/dead-letters", Picture: "dead-letters",
		Sees: []string{"Dead letters", "By what went wrong", "AC04", "The ticked ones"}},
	{Route: "GET /dead-letters", At: "/dead-letters", Form: "form.filter", Leads: "/dead-letters?triage=",
		Fields: []browser.Field{{Name: "code", Value: "AC04"}, {Name: "participant", Value: "{participant}"}},
		Sees:   []string{"{refused}"}},
	{Route: "GET /rails", At: "/", Link: `nav a[href="/rails"]`, Leads: "/rails", Picture: "rails",
		Sees: []string{"Rails", "bank", "their incident 88", "All rails at once"}},
	{Route: "GET /rails/{name}", At: "/rails", Link: `a[href="/rails/card"]`, Leads: "/rails/card", Picture: "rail",
		Sees: []string{"How its calls ended", "REFUSED_FINAL", "Profile in force: version 1", "AC04", "first installation"}},
	{Route: "GET /participants", At: "/", Link: `nav a[href="/participants"]`, Leads: "/participants",
		Picture: "participants", Sees: []string{"Participants", "Newest sequence", "participant-11"}},
	{Route: "GET /participant", At: "/participants?prefix=.", Link: `a[href="/participant?id=.."]`,
		Leads: "/participant?id=..", Sees: []string{"Participant ..", "all of them"}},
	{Route: "GET /participant", At: "/participants", Link: `a[href="/participant?id={participant}"]`,
		Leads: "/participant?id={participant}", Picture: "participant", Sees: []string{"Sequence", "EUR", "all of them"}},
	{Route: "GET /endpoints", At: "/", Link: `nav a[href="/endpoints"]`, Leads: "/endpoints", Picture: "endpoints",
		Sees: []string{"Endpoints", "shop", "redeliver"}},
	{Route: "GET /components", At: "/", Link: `nav a[href="/components"]`, Leads: "/components", Picture: "components",
		Sees: []string{"Heartbeats", "relayer", "reaper", "There never was one"}},
	{Route: "GET /database", At: "/", Link: `nav a[href="/database"]`, Leads: "/database", Picture: "database",
		Sees: []string{"Room", "months after this one", "railhead_relayer_login", "may log in"}},
	{Route: "GET /tokens", At: "/", Link: `nav a[href="/tokens"]`, Leads: "/tokens", Sees: []string{"No token was made"}},
	{Route: "GET /alerts", At: "/", Link: `nav a[href="/alerts"]`, Leads: "/alerts", Picture: "alerts",
		Sees: []string{letter, "RailheadHeldSnapshot", "ticket"}},
	{Route: "GET /audit", At: "/", Link: `nav a[href="/audit"]`, Leads: "/audit", Picture: "audit",
		Sees: []string{"agrees with the role matrix", "Proofs", "sequence"}},
	{Route: "GET /audit/proofs/{name}", At: "/audit", Link: `a[href="/audit/proofs/sequence"]`,
		Leads: "/audit/proofs/sequence", Picture: "proof", Sees: []string{"Each row of its result is a violation", "SELECT"}},
	{Route: "/", At: "/nothing", Status: 404, Sees: []string{"no such page"}, Picture: "problem"},

	act("acknowledge", "refused", "Acknowledged."),
	act("escalate", "refused", "Escalated."),
	act("close", "refused", "Closed."),
	act("replay", "again", "Replayed: it is in pending again."),
	act("inquire", "asked", "It is due for one inquiry."),
	act("resolve", "parked", "Resolved, by your evidence.", browser.Field{Name: "found", Value: "executed"},
		browser.Field{Name: "reference", Value: "R-{parked.id}"}, browser.Field{Name: "date", Value: "{today}"},
		browser.Field{Name: "document", Value: "statement 146, line 9"}),
	act("send-now", "due", "It is due at "),
	act("cancel", "ordered", "Cancelled."),
	act("skip", "passed", "Passed in order: sequence "),

	ticked("acknowledge", "first", "second"),
	ticked("escalate", "first", "second"),
	{Route: "POST /dead-letters/{act}", At: lettersOf, Form: lettersForm, Button: `button[formaction$="/close"]`,
		Fields: []browser.Field{{Name: "id-", Value: "{stuck}"}, because, {Name: "count", Value: "2"}},
		Leads:  "/dead-letters/close", Status: 400, Sees: []string{"nothing was done", "1 are ticked"}},
	ticked("inquire", "stuck"),
	ticked("replay", "first"),
	ticked("close", "second"),

	{Route: "POST /payments/{id}/reveal", At: "/payments/{paid}", Form: `form[action$="/reveal"]`,
		Fields: []browser.Field{because}, Leads: "/payments/{paid}/reveal",
		Sees: []string{"Sample Supplies BV", "The operator log has your act"}},

	on("rails", "giro", "resume", "/rails/giro", "Resumed."),
	on("rails", "giro", "pause", "/rails/giro", "Paused.", browser.Field{Name: "for", Value: "24h"}),
	on("rails", "everything", "pause", "/rails", "Paused.", browser.Field{Name: "for", Value: "90m"}),
	on("rails", "everything", "resume", "/rails", "Resumed."),
	on("participant", "{participant}", "pause", "/participant?id={participant}", "Paused."),
	on("participant", "{participant}", "resume", "/participant?id={participant}", "Resumed."),
	on("endpoints", "shop", "redeliver", "/endpoints", "Its waiting events are due now."),

	{Route: "GET /audit/log", At: "/audit", Link: `a[href="/audit/log"]`, Leads: "/audit/log", Picture: "operator-log",
		Sees: []string{"Operator log", "PAUSE", "giro", "their incident 88"}},
	{Route: "GET /audit/log", At: "/audit/log", Form: "form.filter", Leads: "/audit/log?act=reveal-payload",
		Fields: []browser.Field{{Name: "act", Value: "reveal-payload"}},
		Sees:   []string{"REVEAL_PAYLOAD", "as agreed on the phone", "{paid.id}"}},

	{Route: "POST /logout", At: "/", Form: "form.who", Leads: "/login", Status: 401, Sees: []string{"Log in"}},
	{Route: "GET /login", At: "/login", Status: 401, Sees: []string{"Log in", "one-time link"}, Picture: "login"},
}

// apart are the routes without a step, and why.
var apart = map[string]string{
	"GET /static/{file...}":   "each page loads its files",
	"GET /stream":             "each page with a mark of its age listens to it",
	"GET /state.json":         "each page with a mark of its age loads it where the stream does not reach",
	"/cells/{setting}":        "the console of one cell has none; the tests of package console go through those of several",
	"GET /live.json":          "the charts of the overview load it",
	"GET /login/link":         "each hand logs in by it before its first step",
	"POST /login/link":        "each hand logs in by it before its first step",
	"POST /components/accept": "needs a suspension, which stops the other acts: testbed/alertdrill ends one by it",
	"GET /login/oidc":         "the logins at a provider go through it: logins.go",
	"GET /login/oidc/back":    "the logins at a provider go through it: logins.go",
	"GET /login/certificate":  "a client of HTTPS logs in by the form of this page: certificates.go",
	"POST /login/certificate": "a client of HTTPS logs in by it: certificates.go",
}
