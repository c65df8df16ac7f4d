package console

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/testbed/banks"
)

// kind is a payment that each hand has one of, under a name of the steps.
type kind struct {
	name, rail string
	later      time.Duration // until it is due
	state      string        // that it has to be in, as in supervisor_outbox_status
}

// kinds are the payments that the steps name in braces.
var kinds = []kind{
	{"paid", "bank", 0, "DISPATCHED"},
	{"due", "bank", time.Hour, "PENDING"},     // is sent now
	{"ordered", "bank", time.Hour, "PENDING"}, // is cancelled
	{"refused", "card", 0, "FAILED"},          // is acknowledged, escalated and closed
	{"again", "card", 0, "FAILED"},            // is replayed
	{"first", "card", 0, "FAILED"},            // is ticked with the second, and replayed
	{"second", "card", 0, "FAILED"},           // is ticked with the first, and closed
	{"passed", "line", 0, "FAILED"},           // is passed in order
	{"stuck", "wire", 0, "PARKED"},            // is ticked, and asked about
	{"parked", "wire", 0, "PARKED"},           // is resolved
	{"asked", "wire", 0, "PARKED"},            // is asked about
	{"held", "giro", 0, "PENDING"},            // waits for its rail
}

// faults are what the banks do while these payments are made.
var faults = map[string][]railsim.Fault{
	"card": {{Kind: railsim.Refuse, Code: "AC04", Probability: 1}},
	"line": {{Kind: railsim.Refuse, Code: "AC04", Probability: 1}},
	"wire": {{Kind: railsim.DropAfter, Probability: 1}, {Kind: railsim.InquiryStatus, Status: 503, Probability: 1}},
}

// names are what the braces in steps stand for: the outbox ids of the hand's payments, with .id their instruction
// ids, with .amount their amounts; the hand's participant; and today.
type names map[string]string

// in replaces the names in a text.
func (n names) in(text string) string {
	for _, name := range slices.Sorted(maps.Keys(n)) {
		text = strings.ReplaceAll(text, "{"+name+"}", n[name])
	}
	return text
}

// fill makes ordinary payments, and one of each kind for each hand.
func (w *world) fill(ctx context.Context, ordinary int, hands []string) (map[string]names, error) {
	if err := w.railhead(ctx, "rail", "pause", "giro", "--reason", "their incident 88"); err != nil {
		return nil, err
	}
	for rail, rules := range faults {
		if err := (banks.Control{URL: w.banks[rail].URL}).Spoil(ctx, rules...); err != nil {
			return nil, err
		}
	}
	_, err := w.ingest.Exec(ctx, `SELECT count(e.outbox_id) FROM generate_series(1, $1) n,
	  LATERAL `+cell+`.enqueue_payment_outbox('order-' || n,
	    CASE n WHEN 1 THEN '..' ELSE 'participant-' || n % 12 END, 'order-' || n, 'bank',
	    jsonb_build_object('amount', (n * 7 % 900 + 10)::text || '.50', 'currency', (ARRAY['EUR', 'GBP', 'USD'])[n % 3 + 1],
	      'debtor', jsonb_build_object('account', 'd'), 'creditor', jsonb_build_object('account', 'c'))) e`, ordinary)
	if err != nil {
		return nil, fmt.Errorf("enqueueing: %w", err)
	}
	all := make(map[string]names)
	for _, hand := range hands {
		all[hand] = names{"today": time.Now().UTC().Format(time.DateOnly), "participant": "participant-" + hand}
		for n, one := range kinds {
			id, amount := fmt.Sprintf("%s-%s", one.name, hand), fmt.Sprintf("%d.50", 100*(n+1))
			var outboxID string
			err := w.ingest.QueryRow(ctx, `SELECT e.outbox_id FROM `+cell+`.enqueue_payment_outbox($1, $2, $1, $3,
			  jsonb_build_object('amount', $4::text, 'currency', 'EUR', 'debtor', jsonb_build_object('account', 'd'),
			    'creditor', jsonb_build_object('account', 'c', 'name', 'Sample Supplies BV')),
			  not_before => CASE WHEN $5::bigint > 0 THEN now() + $5::bigint * interval '1 second' END) e`,
				id, "participant-"+hand, one.rail, amount, int64(one.later.Seconds())).Scan(&outboxID)
			if err != nil {
				return nil, fmt.Errorf("enqueueing: %w", err)
			}
			all[hand][one.name], all[hand][one.name+".id"], all[hand][one.name+".amount"] = outboxID, id, amount
		}
	}
	if err := w.settle(ctx, all); err != nil {
		return nil, err
	}
	for rail := range faults {
		if err := (banks.Control{URL: w.banks[rail].URL}).Spoil(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// settle waits until each payment is in the state of its kind.
func (w *world) settle(ctx context.Context, all map[string]names) error {
	for hand, names := range all {
		for _, one := range kinds {
			state := ""
			err := await.Until(ctx, time.Minute, fmt.Sprintf("payment %s of %s to be %s", one.name, hand, one.state),
				func() (bool, error) {
					err := w.admin.QueryRow(ctx, `SELECT s.state FROM `+cell+`.supervisor_outbox_status s WHERE s.outbox_id = $1`,
						names[one.name]).Scan(&state)
					return state == one.state, err
				})
			if err != nil {
				return fmt.Errorf("it is %s: %w", state, err)
			}
		}
	}
	return nil
}
