package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
)

// Traffic starts a caller on a plan of n instructions and returns at once.
func (w *World) Traffic(n int, points ...faultpoint.Point) (*Process, error) {
	w.plans++
	if err := w.writePlan(w.plan(w.plans), n); err != nil {
		return nil, err
	}
	return w.call(w.plans, points)
}

// TrafficAtOnce starts a caller that enqueues n instructions in one transaction, and
// returns at once.
func (w *World) TrafficAtOnce(n int) (*Process, error) {
	w.plans++
	if err := w.writePlan(w.plan(w.plans), n); err != nil {
		return nil, err
	}
	return w.call(w.plans, nil, "-together")
}

// Resume starts a caller on the plan and journal of one that was killed.
func (w *World) Resume(plan int) (*Process, error) { return w.call(plan, nil) }

// Repeat starts a caller that makes every call of a plan again, including those that were
// acknowledged, or only the calls of the named rails.
func (w *World) Repeat(plan int, rails ...string) (*Process, error) {
	return w.call(plan, nil, "-repeat", "-rails", strings.Join(rails, ","))
}

func (w *World) call(plan int, points []faultpoint.Point, more ...string) (*Process, error) {
	env := []string{faultpoint.EnvSocket + "=" + filepath.Join(w.dir, "points")}
	for _, point := range points {
		env = append(env, faultpoint.EnvPoints+"="+string(point))
	}
	if w.overAPI(plan) {
		more = append([]string{"-api", w.apiAddr, "-token", w.token}, more...)
	}
	args := append([]string{
		"caller", "-url", w.url(loginIngest), "-cell", cell,
		"-plan", w.plan(plan), "-journal", w.journal(plan), "-callers", strconv.Itoa(w.Options.Callers),
		"-pace", w.Options.Pace.String(),
	}, more...)
	started, err := child.In(w.dir, fmt.Sprintf("caller-%d-%d", plan, len(w.callers)+1), w.Lane.built.Caller, env,
		args...).Start()
	if err != nil {
		return nil, err
	}
	p := &Process{started}
	w.callers = append(w.callers, p)
	return p, nil
}

// overAPI reports whether a plan is enqueued over HTTP.
func (w *World) overAPI(plan int) bool { return w.Options.ThroughAPI && plan%2 == 1 }

func (w *World) plan(n int) string { return filepath.Join(w.dir, fmt.Sprintf("plan-%d.jsonl", n)) }
func (w *World) journal(n int) string {
	return filepath.Join(w.dir, fmt.Sprintf("journal-%d.jsonl", n))
}

// writePlan draws n instructions and writes them as a plan. Every rail of the options
// gets its share.
func (w *World) writePlan(path string, n int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	for i := range n {
		one, err := w.draw(w.Options.Rails[i%len(w.Options.Rails)])
		if err != nil {
			return err
		}
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// instructionID names the nth instruction of a run, from 0.
func instructionID(n int) string { return fmt.Sprintf("instruction-%04d", n+1) }

// participantID names the nth participant of a run, from 0.
func participantID(n int) string { return fmt.Sprintf("participant-%d", n+1) }

// draw draws one instruction of a rail and remembers it.
func (w *World) draw(rail string) (order, error) {
	number := len(w.orders)
	participant := participantID(w.draws.IntN(w.Options.Participants))
	payload, err := json.Marshal(map[string]any{
		"amount":   fmt.Sprintf("%d.%02d", 1+w.draws.IntN(9000), w.draws.IntN(100)),
		"currency": "EUR",
		"debtor":   map[string]any{"account": participant},
		"creditor": map[string]any{"account": fmt.Sprintf("creditor-%d", w.draws.IntN(20))},
	})
	if err != nil {
		return order{}, err
	}
	one := order{
		InstructionID: instructionID(number), ParticipantID: participant, Key: fmt.Sprintf("key-%04d", number+1),
		Rail: rail, Priority: w.draws.IntN(3), Payload: payload,
	}
	if w.Options.ExpiresIn > 0 {
		one.ExpiresAt = time.Now().Add(w.Options.ExpiresIn)
	}
	w.orders[one.InstructionID] = one
	return one, nil
}

// AwaitCallers waits until every caller that was not killed has ended.
func (w *World) AwaitCallers(ctx context.Context) error {
	return await.Until(ctx, w.Options.HealWithin, "the callers to end", func() (bool, error) {
		for _, p := range w.callers {
			if p.Alive() {
				return false, nil
			}
			if err := p.Failed(); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// waiting counts what still moves: rows in pending that are not quarantined, and
// claims in flight.
func (w *World) waiting(ctx context.Context) (pending, claims int, err error) {
	err = w.admin.QueryRow(ctx, `SELECT
	  (SELECT count(*) FROM `+cell+`.payment_outbox_pending WHERE next_attempt_at < 'infinity'),
	  (SELECT count(*) FROM `+cell+`.payment_outbox_claims)`).Scan(&pending, &claims)
	return pending, claims, err
}

// AwaitRest waits until no claim is in flight and nothing is pending that is not
// quarantined.
func (w *World) AwaitRest(ctx context.Context) (took time.Duration, err error) {
	begun := time.Now()
	var pending, claims int
	err = await.Until(ctx, w.Options.HealWithin, "everything to end or to be parked", func() (bool, error) {
		var err error
		// The server may have been down: after an error it is asked again.
		if pending, claims, err = w.waiting(ctx); err != nil {
			return false, nil
		}
		return pending == 0 && claims == 0, nil
	})
	if err != nil {
		err = fmt.Errorf("%w: %d in pending, %d claims in flight", err, pending, claims)
	}
	return time.Since(begun), err
}
