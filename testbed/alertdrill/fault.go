package alertdrill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/railsim"
)

// fault is one way to break the installation.
type fault struct {
	// name is the name of its alert, except for the history.
	name string
	// about describes how it is made.
	about string
	// wants are the alerts that must fire and resolve, as alert/severity.
	wants []string
	// inject makes the fault, and returns the variables that on-call would have set for the runbook's
	// commands.
	inject func(ctx context.Context, w *world) ([]string, error)
	// heal repairs what the runbook's own commands do not repair.
	heal func(ctx context.Context, w *world) error
	// short reports whether the fault is part of the short form.
	short bool
}

// alertsOf are the names of the alerts that a fault is about.
func alertsOf(f fault) []string {
	names := make(map[string]bool)
	for _, key := range f.wants {
		alert, _, _ := strings.Cut(key, "/")
		names[alert] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func page(alert string) []string   { return []string{alert + "/page"} }
func ticket(alert string) []string { return []string{alert + "/ticket"} }

// faults returns all faults, in the order in which they run.
func faults() []fault {
	all := []fault{{
		name: "history", about: "the blocks hold 3 days in which rail past failed and was slow until an hour ago",
		wants:  []string{"RailheadDispatchSuccessBudgetBurn/ticket", "RailheadDispatchLatencyBudgetBurn/ticket"},
		inject: func(context.Context, *world) ([]string, error) { return []string{"RAIL=past"}, nil },
		heal:   func(context.Context, *world) error { return nil },
	}}
	all = append(all, railFaults()...)
	all = append(all, moneyFaults()...)
	all = append(all, componentFaults()...)
	return append(all, databaseFaults()...)
}

// railFaults returns the faults of a rail that answers badly, slowly or not at all.
func railFaults() []fault {
	return []fault{
		{
			name: "RailheadOldestPendingTooOld", about: "rail card is paused, and a payment waits",
			wants:  page("RailheadOldestPendingTooOld"),
			inject: func(ctx context.Context, w *world) ([]string, error) { return w.pausedWith(ctx, "card", 1, 0) },
			heal:   func(ctx context.Context, w *world) error { return w.resume(ctx, "card") },
		},
		{
			name: "RailheadRetryableSpike", about: "rail bank answers 429 to four payments",
			wants: page("RailheadRetryableSpike"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "bank", 4, railsim.Fault{Kind: railsim.StatusBefore, Status: 429})
			},
			heal: healed("bank"),
		},
		{
			name: "RailheadRailBusy", about: "rail wire answers 429 to three payments", wants: page("RailheadRailBusy"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "wire", 3, railsim.Fault{Kind: railsim.StatusBefore, Status: 429, Plain: true})
			},
			heal: healed("wire"),
		},
		{
			name: "RailheadUnknownsGrowing", about: "rail swift executes and closes the connection, and its inquiries answer " +
				"503", wants: page("RailheadUnknownsGrowing"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "swift", 8, railsim.Fault{Kind: railsim.DropAfter},
					railsim.Fault{Kind: railsim.InquiryStatus, Status: 503})
			},
			heal: healed("swift"),
		},
		{
			name: "RailheadRailPausedItself", about: "rail giro answers 401", wants: page("RailheadRailPausedItself"),
			short: true,
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "giro", 3, railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true})
			},
			heal: healed("giro"), // the runbook's command resumes it
		},
		{
			name: "RailheadBreakerOpen", about: "rail wire closes every connection unanswered while 10 payments a second " +
				"come in", wants: page("RailheadBreakerOpen"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				vars, err := w.spoiledWith(ctx, "wire", 20, railsim.Fault{Kind: railsim.DropBefore},
					railsim.Fault{Kind: railsim.InquiryDrop})
				w.during(w.flow(ctx, "wire", 10))
				return vars, err
			},
			heal: healed("wire"),
		},
		{
			name: "RailheadDispatchSuccessBudgetBurn", about: "a third of 20 sends a second to rail swift are answered 500",
			wants: page("RailheadDispatchSuccessBudgetBurn"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				vars, err := w.spoiledWith(ctx, "swift", 1,
					railsim.Fault{Kind: railsim.StatusBefore, Status: 500, Probability: 0.33})
				w.during(w.flow(ctx, "swift", 20))
				return vars, err
			},
			heal: healed("swift"),
		},
		{
			name: "RailheadDispatchLatencyBudgetBurn", about: "rail swift answers after 6 s",
			wants: page("RailheadDispatchLatencyBudgetBurn"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				vars, err := w.spoiledWith(ctx, "swift", 1, railsim.Fault{Kind: railsim.DelayAfter, DelayMS: 6000})
				w.during(w.flow(ctx, "swift", 5))
				return vars, err
			},
			heal: healed("swift"),
		},
	}
}

// moneyFaults returns the faults that leave payments to an operator, or nearly do.
func moneyFaults() []fault {
	return []fault{
		{
			name: "RailheadDeadLettersGrowing", about: "rail card refuses two payments for good",
			wants: ticket("RailheadDeadLettersGrowing"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "card", 2, railsim.Fault{Kind: railsim.Refuse, Code: "AC04"})
			},
			heal: func(ctx context.Context, w *world) error {
				return w.letters(ctx, "FAILED", closeLetter, healed("card"))
			},
		},
		{
			name: "RailheadPaymentParked", about: "rail card, which can't be asked, executes two payments and closes the " +
				"connection", wants: page("RailheadPaymentParked"), short: true,
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "card", 2, railsim.Fault{Kind: railsim.DropAfter})
			},
			heal: func(ctx context.Context, w *world) error {
				return w.letters(ctx, "OUTCOME_UNKNOWN", resolve, healed("card"))
			},
		},
		{
			name: "RailheadConflictOpened", about: "rail giro calls back that it executed a payment, and then that it " +
				"refused it", wants: page("RailheadConflictOpened"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "giro", 1, railsim.Fault{Kind: railsim.CallbackConflict})
			},
			heal: func(ctx context.Context, w *world) error { return w.letters(ctx, "CONFLICT", resolve, healed("giro")) },
		},
		{
			name: "RailheadOrderBlocked", about: "rail line, which sends in order, refuses a payment for good",
			wants: page("RailheadOrderBlocked"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.spoiledWith(ctx, "line", 1, railsim.Fault{Kind: railsim.Refuse, Code: "AC04"})
			},
			// The runbook's command lets the line go on.
			heal: func(ctx context.Context, w *world) error { return w.banks["line"].spoil(ctx) },
		},
		{
			name: "RailheadPaymentNearExpiry", about: "rail wire is paused, and a payment waits that ends in 10 minutes",
			wants: page("RailheadPaymentNearExpiry"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return w.pausedWith(ctx, "wire", 1, 10*time.Minute)
			},
			heal: func(ctx context.Context, w *world) error { return w.resume(ctx, "wire") },
		},
	}
}

const closeLetter = `railhead dead-letter close "$ID" --reason "the participant pays in another way"`

const resolve = `railhead dead-letter resolve "$ID" --executed --rail-reference "R-$ID" --evidence-date "$(date -u +%F)" ` +
	`--document "statement 146, line 9" --reason "on the statement"`

// spoiledWith puts faults of a rail's bank in force and enqueues n payments to it.
func (w *world) spoiledWith(ctx context.Context, rail string, n int, spoilt ...railsim.Fault) ([]string, error) {
	if err := w.banks[rail].spoil(ctx, spoilt...); err != nil {
		return nil, err
	}
	ids, err := w.enqueue(ctx, rail, n, 0)
	if err != nil {
		return nil, err
	}
	return []string{"RAIL=" + rail, "ID=" + ids[0]}, nil
}

func healed(rail string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error { return w.banks[rail].spoil(ctx) }
}

// pausedWith pauses a rail as an operator does, and enqueues n payments to it.
func (w *world) pausedWith(ctx context.Context, rail string, n int, expires time.Duration) ([]string, error) {
	if _, err := w.shell(ctx, nil, "railhead rail pause "+rail+" --reason 'their incident 88'"); err != nil {
		return nil, err
	}
	ids, err := w.enqueue(ctx, rail, n, expires)
	if err != nil {
		return nil, err
	}
	return []string{"RAIL=" + rail, "ID=" + ids[0]}, nil
}

func (w *world) resume(ctx context.Context, rail string) error {
	_, err := w.shell(ctx, nil, "railhead rail resume "+rail+" --reason 'they are back'")
	return err
}

// letters heals the rail and then runs an operator's command for each open dead letter that has a
// reason.
func (w *world) letters(ctx context.Context, reason, command string, mend func(context.Context, *world) error) error {
	if err := mend(ctx, w); err != nil {
		return err
	}
	rows, err := w.admin.Query(ctx, `SELECT d.outbox_id::text FROM `+cell+`.payment_dead_letters d
	  WHERE d.reason = $1 AND d.status NOT IN ('manual_replay', 'resolved') LIMIT 100`, reason)
	if err != nil {
		return err
	}
	ids, err := collect(rows)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("no dead letter %s is open", reason)
	}
	for _, id := range ids {
		if _, err := w.shell(ctx, []string{"ID=" + id}, command); err != nil {
			return err
		}
	}
	return nil
}
