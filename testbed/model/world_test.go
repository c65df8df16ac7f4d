package model

import (
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/testbed/calls"
)

// profiles are the kinds of rail, which differ in what is safe.
var profiles = map[string]string{
	"same key":           `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME"}`,
	"same key, covering": `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "answer_covers_key": true}`,
	"never":              `{"acceptance": "FINAL", "resend_on_unknown": "NEVER", "id_after_refusal": "SAME", "business_retry": {"max": 1, "wait": "1m"}}`,
	"never, asked":       `{"acceptance": "FINAL", "resend_on_unknown": "NEVER", "inquiry": ` + asked + `}`,
	"same key, asked":    `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME", "inquiry": ` + asked + `}`,
	"by answer, asked":   `{"acceptance": "BY_ANSWER", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME", "inquiry": ` + asked + `}`,
	"provisional, asked": `{"acceptance": "PROVISIONAL", "resend_on_unknown": "NEVER", "inquiry": ` + asked + `}`,
	"provisional, callback": `{"acceptance": "PROVISIONAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "answer_covers_key": true,
	  "callback_deadline": "1h"}`,
}

const asked = `{"intervals": ["1s"], "max": 6, "not_found": "NOT_EXECUTED", "not_found_age": "1m", "not_found_until": "24h"}`

// installation is the cell that all histories of a test share.
type installation struct {
	cell     *celltest.Cell
	ingest   *ingest.Ingest
	executor *executor.Executor
	reports  *callbacks.Callbacks
	operator *operator.Operator
	looker   *pgx.Conn // reads as the superuser
	rails    atomic.Int64
}

// world is one history: instructions on a rail of its own, so that histories do not affect each
// other.
type world struct {
	*installation
	name    string // of the rail, and the beginning of every id
	profile rails.Profile
	past
	orders  int // calls made by callers, repeated ones aside
	all     []*instruction
	gone    []*instruction // that a restore has forgotten
	backup  *backup
	workers [2]worker
	again   []payment.Outcome // recorded before, to be recorded once more
	// The product's receiver of callbacks, and what it said of the last one.
	callbacks *calls.Receiver
	heard     string
}

// instruction is one instruction, as the model, the rail and the database have it.
type instruction struct {
	*model
	id    payment.ID
	order payment.Instruction
	rail  *rail
	// rewound is how many rows it had after the last restore that changed it; 0 if none has.
	rewound int
	// repeated is set where a restore has forgotten the first call.
	repeated bool
}

// worker is one process. What it holds is lost when it crashes.
type worker struct {
	jobs  []*job
	late  []payment.Outcome // lost the fence, to go by the slow path
	fresh int
}

// job is a claim that a worker holds, and its outcome once there is one.
type job struct {
	instruction *instruction
	claim       payment.Claim
	outcome     *payment.Outcome
}

func (i *installation) newWorld(t *rapid.T) *world {
	kind := rapid.SampledFrom(sortedKeys(profiles)).Draw(t, "rail")
	w := &world{installation: i, name: fmt.Sprintf("r%d", i.rails.Add(1))}
	i.cell.ApplyProfile(w.name, profiles[kind])
	text, err := celltest.Canonical(w.name, profiles[kind])
	must(t, err)
	w.profile, err = rails.ParseProfile(text)
	must(t, err)
	w.callbacks, err = calls.Open([]string{w.name}, "EXECUTED", "REFUSED", w.reports, w)
	must(t, err)
	return w
}

func (w *world) workerID(n int) string {
	return fmt.Sprintf("%s-worker-%d-%d", w.name, n, w.workers[n].fresh)
}

// pick draws one of those instructions that fit, or skips the step.
func (w *world) pick(t *rapid.T, fits func(*instruction) bool) *instruction {
	var some []*instruction
	for _, each := range w.all {
		if fits(each) {
			some = append(some, each)
		}
	}
	if len(some) == 0 {
		t.Skip("no instruction fits")
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(t, "instruction")]
}

// pickWorker draws one of those workers that fit, or skips the step.
func (w *world) pickWorker(t *rapid.T, fits func(*worker) bool) *worker {
	var some []*worker
	for n := range w.workers {
		if fits(&w.workers[n]) {
			some = append(some, &w.workers[n])
		}
	}
	if len(some) == 0 {
		t.Skip("no worker fits")
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(t, "worker")]
}

func (w *world) byID(id payment.ID) *instruction {
	for _, each := range w.all {
		if each.id == id {
			return each
		}
	}
	return nil
}

// outcome makes a worker's outcome of a claim, due again at once.
func (w *world) outcome(
	claim payment.Claim, d payment.Decision, result payment.Result, reference, worker string,
) payment.Outcome {
	d.Delay = 0
	o := payment.Outcome{
		AttemptID: payment.NewID(), Claim: claim, Result: result, Decision: d, RailReference: reference,
		WorkerID: worker, ProfileVersion: 1, RenderVersion: "r1",
	}
	if d.Park {
		o.ParkAttemptID = payment.NewID()
	}
	return o
}

// clearUp removes what a history leaves and could affect the next one.
func (w *world) clearUp() {
	w.cell.Exec("DELETE FROM railhead.payment_outbox_claims")
	w.cell.Exec("DELETE FROM railhead.payment_outbox_pending")
	if !w.restored {
		return
	}
	err := w.unguarded(func(tx pgx.Tx) error {
		_, err := tx.Exec(w.ctx(), "DELETE FROM railhead.payment_outbox_suspensions")
		return err
	})
	if err != nil {
		panic(err)
	}
}
