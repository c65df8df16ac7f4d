package alertdrill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/testbed/browser"
)

// clicksMax is how many clicks may lead from the first page of the console to the cause of a fault, to its runbook and
// to the act that mends it, all of them together.
const clicksMax = 5

// route is the way of an operator on call through the console for one fault. What is in braces is a variable of the
// fault: {ID} is a payment of it, {PID} a session.
type route struct {
	fault string
	// cause are the selectors of the links from the first page to the page that shows the cause, and says what of it
	// is read there, in whatever case.
	cause []string
	says  []string
	// runbook are the links from there to the runbook of each alert; none: one link with the alert's name.
	runbook []string
	// act mends it, if that is an act of Railhead; else mend is what does.
	act  *act
	mend string
	// heal replaces the fault's own, which does by a command what the act has done.
	heal func(ctx context.Context, w *world) error
	// elsewhere is the server of another cell, if that has the fault.
	elsewhere func(w *world) *pgserver.Server
	short     bool // it is part of the short form
}

// act is what mends a fault in the console.
type act struct {
	before func(ctx context.Context, w *world) error // has to be mended first, outside of Railhead
	links  []string                                  // from the page of the cause to that of the act
	form   string
	fields []browser.Field
	says   string
	check  string // SQL of a boolean: whether the act has mended it
}

// The pages of the navigation.
const (
	toComponents = `nav a[href="/components"]`
	toDatabase   = `nav a[href="/database"]`
	toEndpoints  = `nav a[href="/endpoints"]`
	toTokens     = `nav a[href="/tokens"]`
)

func toRail(rail string) []string { return []string{`#rails a[href="/rails/` + rail + `"]`} }

func because(reason string) browser.Field { return browser.Field{Name: "reason", Value: reason} }

// dispatched asks whether the payment of the fault has gone through.
const dispatched = `SELECT s.state = 'DISPATCHED' FROM ` + cell + `.supervisor_outbox_status s WHERE s.outbox_id = '{ID}'`

// letterOver asks whether the dead letter of the fault's payment is closed.
const letterOver = `SELECT d.status = 'resolved' FROM ` + cell + `.payment_dead_letters d WHERE d.outbox_id = '{ID}'`

// resume is the act that ends the pause of a rail; its payment then goes through.
func resume(rail string, before func(context.Context, *world) error, links ...string) *act {
	return &act{before: before, links: links, form: `form[action="/rails/` + rail + `/resume"]`,
		fields: []browser.Field{because("they are back")}, says: "Resumed.", check: dispatched}
}

// resolved is the act that ends a payment by the evidence that it was executed.
func resolved(before func(context.Context, *world) error, check string) *act {
	return &act{before: before, links: []string{`a[href="/payments/{ID}"]`}, form: `form[action$="/resolve"]`,
		fields: []browser.Field{
			{Name: "found", Value: "executed"}, {Name: "reference", Value: "R-{ID}"},
			{Name: "date", Value: time.Now().UTC().Format(time.DateOnly)},
			{Name: "document", Value: "statement 146, line 9"}, because("on the statement"),
		}, says: "Resolved, by your evidence.", check: check}
}

// ended ends the session that holds something, as the runbook says.
func ended(ctx context.Context, w *world, vars []string) error {
	for _, pair := range vars {
		if pid, found := strings.CutPrefix(pair, "PID="); found {
			_, err := w.admin.Exec(ctx, `SELECT pg_terminate_backend($1::text::integer)`, pid)
			return err
		}
	}
	return nil
}

func nothing(context.Context, *world) error { return nil }

// What mends a fault that no act of Railhead mends.
const (
	byBank    = "the bank: what failed goes again by itself"
	byProcess = "a start of the component"
	byServer  = "an administrator of the database"
)

// routes returns the way through the console for each fault, in their order.
func routes() []route {
	return slices.Concat([]route{{
		fault: "history", mend: "nothing: its past is in Prometheus alone, and the rail past is none of this cell",
	}}, railRoutes(), moneyRoutes(), componentRoutes(), databaseRoutes())
}

func railRoutes() []route {
	budget := []string{`#ends a[href="/runbooks/RailheadDispatchSuccessBudgetBurn"]`}
	return []route{
		{
			fault: "RailheadOldestPendingTooOld", cause: toRail("card"),
			says: []string{"rail card is paused by railhead_operator_login", "their incident 88", "1 due, the oldest since"},
			act:  resume("card", nothing), heal: nothing,
		},
		{
			fault: "RailheadRetryableSpike", cause: toRail("bank"),
			says:    []string{"How its calls ended", "REFUSED_LATER", "RAIL_BUSY"},
			runbook: []string{`#ends p a[href="/runbooks/RailheadRetryableSpike"]`}, mend: byBank,
		},
		{
			fault: "RailheadRailBusy", cause: toRail("wire"),
			says:    []string{"How its calls ended", "REFUSED_LATER", "429"},
			runbook: []string{`#ends a[href="/runbooks/RailheadRailBusy"]`}, mend: byBank,
		},
		{
			fault: "RailheadUnknownsGrowing", cause: toRail("swift"),
			says:    []string{"How its calls ended", "UNKNOWN", "UNAVAILABLE"},
			runbook: []string{`#state a[href="/runbooks/RailheadUnknownsGrowing"]`}, mend: byBank,
		},
		{
			fault: "RailheadRailPausedItself", cause: toRail("giro"), short: true,
			says:    []string{"rail giro is paused by railhead_relayer_login", "401", "RAIL_REFUSED"},
			runbook: []string{`#acts a[href="/runbooks/RailheadRailPausedItself"]`},
			act:     resume("giro", healed("giro")), heal: nothing,
		},
		{
			fault: "RailheadBreakerOpen", cause: toRail("wire"), says: []string{"OPEN until"},
			runbook: []string{`#state a[href="/runbooks/RailheadBreakerOpen"]`}, mend: byBank,
		},
		{
			fault: "RailheadDispatchSuccessBudgetBurn", cause: toRail("swift"),
			says: []string{"How its calls ended", "UNKNOWN", "ERROR of iso20022"}, runbook: budget, mend: byBank,
		},
		{
			fault: "RailheadDispatchLatencyBudgetBurn", cause: toRail("swift"),
			says:    []string{"How its calls ended", "ACCEPTED"},
			runbook: []string{`#ends a[href="/runbooks/RailheadDispatchLatencyBudgetBurn"]`}, mend: byBank,
		},
	}
}

func moneyRoutes() []route {
	return []route{
		{
			fault: "RailheadDeadLettersGrowing", cause: []string{`#groups a[href*="code=AC04"]`},
			says: []string{"FAILED", "AC04", "{ID}"},
			act: &act{before: healed("card"), links: []string{`a[href="/payments/{ID}"]`}, form: `form[action$="/close"]`,
				fields: []browser.Field{because("the participant pays in another way")}, says: "Closed.", check: letterOver},
		},
		{
			fault: "RailheadPaymentParked", cause: []string{`#groups a[href*="reason=OUTCOME_UNKNOWN"]`}, short: true,
			says: []string{"OUTCOME_UNKNOWN", "{ID}"}, act: resolved(healed("card"), dispatched),
		},
		{
			fault: "RailheadConflictOpened", cause: []string{`#groups a[href*="reason=CONFLICT"]`},
			says: []string{"CONFLICT", "{ID}"}, act: resolved(healed("giro"), letterOver), heal: nothing,
		},
		{
			fault: "RailheadOrderBlocked", cause: toRail("line"),
			says:    []string{"participants blocked in order", "{ID}"},
			runbook: []string{`#state a[href="/runbooks/RailheadOrderBlocked"]`},
			act: &act{before: healed("line"), links: []string{`#state a[href="/payments/{ID}"]`}, form: `form[action$="/close"]`,
				fields: []browser.Field{because("the participant pays in another way")}, says: "Closed.", check: letterOver},
			heal: nothing,
		},
		{
			fault: "RailheadPaymentNearExpiry", cause: []string{`#expiring a[href="/payments/{ID}"]`},
			says: []string{"It expires at", "waits: rail wire is paused by railhead_operator_login"},
			act:  resume("wire", nothing, `main a[href="/rails/wire"]`), heal: nothing,
		},
	}
}

func componentRoutes() []route {
	return []route{
		{
			fault: "RailheadNotifierLost", cause: []string{toComponents},
			says: []string{"its notifier is lost"}, mend: byProcess,
		},
		{
			fault: "RailheadReaperNotRunning", cause: []string{toComponents},
			says: []string{"No reaper runs"}, short: true,
			mend: byProcess,
		},
		{
			fault: "RailheadComponentStale", cause: []string{`.tile a[href="/components"]`},
			says: []string{"it accepts no report of a rail"}, mend: byProcess,
		},
		{
			fault: "RailheadComponentStopped", cause: []string{toComponents},
			says: []string{"callback", "it announced its stop"}, mend: byProcess,
		},
		{
			fault: "RailheadComponentRestarts", cause: []string{toComponents}, says: []string{"callback"}, mend: byProcess,
		},
		{
			fault: "RailheadCertificateExpires", cause: []string{toComponents},
			says: []string{"railhead_tls_certificate_expires_timestamp_seconds"}, mend: "a renewed file in its place",
		},
		{
			fault: "RailheadStateUnsaved", cause: []string{toComponents}, says: []string{"railhead_state_unsaved_seconds"},
			mend: "the folder in its place, on a disk with room",
		},
		{
			fault: "RailheadAPIFailing", cause: []string{toDatabase},
			says: []string{"railhead_api_login", "it may not log in"},
			mend: byServer,
		},
		{
			fault: "RailheadTokenNotInForce", cause: []string{toTokens},
			says: []string{"A token was used that is not in force", "run of the alerts", "revoked since"},
			mend: "its caller, who takes a token that is in force",
		},
		{
			fault: "RailheadWebhookStuck", cause: []string{toEndpoints}, says: []string{"shop", "500", "old runbook"},
			act: &act{
				before: func(_ context.Context, w *world) error { w.endpointTakes.Store(true); return nil },
				form:   `form[action="/endpoints/shop/redeliver"]`, fields: []browser.Field{because("their receiver is mended")},
				says:  "Its waiting events are due now.",
				check: `SELECT bool_and(e.waiting = 0 AND e.delivered_at IS NOT NULL) FROM ` + cell + `.event_endpoints() e`,
			},
		},
		{
			fault: "RailheadCallbacksNotTaken", cause: toRail("giro"),
			says: []string{"Its callbacks that are not taken", "leave no row", "railhead_callbacks_total"},
			mend: "its sender, who signs by the secret that we have",
		},
		{
			fault: "RailheadStuckDispatching", cause: []string{`.tile a[href="/components"]`},
			says:    []string{"No relayer runs", "No reaper runs", "a reaper may repair its claims"},
			runbook: []string{`a.brand`, `.tile a[href="/runbooks/RailheadStuckDispatching"]`}, mend: byProcess,
		},
		{
			fault: "RailheadStatsStale", cause: []string{toDatabase},
			says: []string{"railhead_auditor_login", "it may not log in"},
			mend: byServer,
		},
		{
			fault: "RailheadClockSkew", cause: []string{toComponents},
			says: []string{"reaper", "+5"}, elsewhere: func(w *world) *pgserver.Server { return w.ahead },
			mend: "the machine's administrator, who sets the clock",
		},
	}
}

func databaseRoutes() []route {
	return []route{
		{
			fault: "RailheadHeldSnapshot", cause: []string{toDatabase},
			says: []string{"session {PID} of"}, short: true,
			mend: byServer,
		},
		{
			fault: "RailheadEventsHeld", cause: []string{toEndpoints},
			says: []string{"are held from callers", "process {PID}"},
			mend: byServer,
		},
		{
			fault: "RailheadWraparoundNear", cause: []string{toDatabase},
			says: []string{"78 % of the ids"}, elsewhere: func(w *world) *pgserver.Server { return w.worn },
			mend: byServer,
		},
		{
			fault: "RailheadPartitionsRunningOut", cause: []string{toDatabase},
			says: []string{"The archive has no partition for next month"}, mend: byProcess,
		},
		{
			fault: "RailheadDatabaseNearFull", cause: []string{toDatabase},
			says: []string{"public.filler", "of its limit of 256 MiB"},
			mend: "a larger disk, or the owner of the table", short: true,
		},
		{
			fault: "RailheadSuspensionOpen", cause: []string{toComponents},
			says: []string{"A suspension is open", "a run of the alerts"},
			act: &act{
				before: nothing, form: `form[action="/components/accept"]`,
				fields: []browser.Field{{Name: "compared-", Value: "yes"}, because("compared with the statements of all rails")},
				says:   "The server is accepted",
				check:  `SELECT count(*) = 0 FROM ` + cell + `.payment_outbox_suspensions s WHERE s.accepted_at IS NULL`,
			},
		},
		{
			fault: "RailheadCellTakesNothing", cause: []string{toComponents},
			says: []string{"This cell takes no instruction"}, mend: "railhead cell sync, which knows the other cells",
		},
		{
			fault: "RailheadBucketsUntaken", cause: []string{toComponents},
			says: []string{"No cell takes the participants of 1 buckets"},
			mend: "railhead cell move, which knows the other cells",
		},
	}
}

// clicks counts those of a route, with the one back from the runbook to the page of the cause.
func (r route) clicks(alerts []string) int {
	n := len(r.cause)
	for _, alert := range alerts {
		n = max(n, len(r.cause)+len(r.toRunbook(alert)))
	}
	if r.act != nil {
		n += 1 + len(r.act.links)
	}
	return n
}

// toRunbook are the links from the page of the cause to the runbook of an alert.
func (r route) toRunbook(alert string) []string {
	if r.runbook != nil {
		return r.runbook
	}
	return []string{`main a[href="/runbooks/` + alert + `"]`}
}

// filled replaces the variables of a fault, NAME=value, in a text.
func filled(text string, vars []string) string {
	for _, pair := range vars {
		name, value, _ := strings.Cut(pair, "=")
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// routeOf returns the route of a fault.
func routeOf(f fault) (route, error) {
	all := routes()
	at := slices.IndexFunc(all, func(r route) bool { return r.fault == f.name })
	if at < 0 {
		return route{}, errors.New("no route through the console for fault " + f.name)
	}
	return all[at], nil
}
