package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// sentence is one of testdata/sentences.yaml.
type sentence struct {
	Says  string `yaml:"says"`
	Holds string `yaml:"holds"`
	// Elsewhere is the reason why no history of this test has to print it; empty: one has to.
	Elsewhere string `yaml:"elsewhere"`

	whole   *regexp.Regexp
	printed int
}

// sentenceRows is what the SQL of a sentence sees of instruction $1.
const sentenceRows = `
	WITH a AS MATERIALIZED (SELECT * FROM railhead.v_outbox_attempts WHERE outbox_id = $1),
	l AS (SELECT * FROM a WHERE state <> 'LATE_OUTCOME' ORDER BY attempt_no DESC LIMIT 1),
	p AS (SELECT * FROM railhead.v_outbox_pending WHERE outbox_id = $1),
	d AS (SELECT *, status NOT IN ('manual_replay', 'resolved') AS open FROM railhead.payment_dead_letters
	WHERE outbox_id = $1),
	k AS (SELECT * FROM railhead.payment_outbox_keys WHERE outbox_id = $1),
	g AS (SELECT * FROM railhead.payment_operator_log WHERE outbox_id = $1),
	r AS (SELECT v.profile FROM railhead.payment_rails b
	JOIN railhead.payment_rail_profiles v ON v.rail_type = b.rail_type AND v.version = b.profile_version
	WHERE b.rail_type = 'bank')
	SELECT ARRAY[`

// sentenceWords are the repeated parts of the SQL in the file.
var sentenceWords = map[string]string{
	"repeats": `EXISTS (SELECT FROM k, railhead.payment_outbox_suspensions s, railhead.payment_outbox_settings g
		WHERE k.created_at >= least(s.known_until, s.opened_at) AND (s.accepted_at IS NULL
		OR k.created_at < s.accepted_at + g.repeated_within))`,
	"executed_by_rail": `EXISTS (SELECT FROM a WHERE error_code IS DISTINCT FROM 'RESOLVED' AND (state = 'DISPATCHED' OR result = 'EXECUTED'))`,
	"refused_by_rail":  `EXISTS (SELECT FROM a WHERE error_code IS DISTINCT FROM 'RESOLVED' AND result IN ('REFUSED', 'REFUSED_FINAL'))`,
	// Claims that no row answers.
	"flights": `(SELECT t.outbox_id, t.rail_type, t.outcome_unknown, f.claimed_at
		FROM railhead.payment_outbox_claims f CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) AS m (id, no)
		JOIN railhead.payment_outbox_attempts t ON t.outbox_id = m.id AND t.attempt_no = m.no
		WHERE NOT EXISTS (SELECT FROM railhead.payment_outbox_attempts x WHERE x.outbox_id = m.id AND x.attempt_no > m.no
		AND x.state <> 'LATE_OUTCOME')) AS flights`,
	// What the table shows of a row in addition to its words.
	"cells": `coalesce(nullif(a.worker_id, ''), a.actor) = '{by}' AND a.attempt_no = {row} AND a.state::text = '{state}' AND date_trunc('milliseconds', a.created_at) = '{at}'
		AND coalesce(CASE WHEN a.error_code IS DISTINCT FROM 'RESOLVED' THEN a.result END, '-') = '{result}'
		AND coalesce(a.rail_reference, '-') = '{reference}'
		AND coalesce(nullif(concat_ws('/', a.error_code, CASE WHEN a.rail_code IS DISTINCT FROM a.error_code
		THEN a.rail_code END), ''), '-') = '{code}'
		AND coalesce(a.latency_ms || 'ms', '-') = '{latency}'
		AND starts_with(replace(coalesce(nullif(a.error_message, ''), '-'), E'\n', ' '), rtrim('{said}', '.'))`,
	// The last reports of the running relayers about the rails that they serve.
	"lanes": `(SELECT h.last_tick_at, s.lane FROM railhead.outbox_heartbeats h CROSS JOIN LATERAL jsonb_array_elements(h.lanes) AS s (lane)
		WHERE h.kind = 'relayer' AND h.status = 'running'
		AND h.last_tick_at > clock_timestamp() - interval '15 seconds') AS lanes`,
	"none_free": `NOT EXISTS (SELECT FROM railhead.outbox_heartbeats h CROSS JOIN LATERAL jsonb_array_elements(h.lanes) AS s (lane)
		WHERE h.kind = 'relayer' AND h.status = 'running' AND h.last_tick_at > clock_timestamp() - interval '15 seconds'
		AND s.lane ->> 'rail_type' = 'bank' AND s.lane ->> 'breaker' = 'CLOSED'
		AND (s.lane ->> 'calls')::integer < (s.lane ->> 'slots')::integer
		AND (s.lane ->> 'profile_version')::integer = (SELECT profile_version FROM railhead.payment_rails
		WHERE rail_type = 'bank')
		AND NOT s.lane ? 'suspended' AND NOT s.lane ? 'stopped_ms')`,
	"paused": `EXISTS (SELECT FROM (
		SELECT CASE rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || rail_type END AS what FROM railhead.payment_rails
		WHERE paused
		UNION ALL SELECT 'participant ' || participant_id FROM railhead.payment_paused_participants) x
		WHERE what = '{what}')`,
	"beats": `(SELECT h.name, h.kind, h.status, clock_timestamp() - h.last_tick_at AS age FROM railhead.outbox_heartbeats h) AS beats`,
	// An age that was printed some moments ago, in two units at most.
	"about": `age - interval '{age}' BETWEEN interval '0' AND interval '10 seconds' + CASE WHEN age > interval '1 day' THEN interval '1 hour' WHEN age > interval '1 hour' THEN interval '1 minute' ELSE interval '0' END`,
	// As of a row some send, of a claim or of one that a restore forgot, is not known to have ended.
	"doubted": `(EXISTS (
		SELECT FROM a c WHERE c.state = 'DISPATCHING' AND c.attempt_no <= {row} AND NOT EXISTS (
			SELECT FROM a x WHERE x.answers_attempt_no = c.attempt_no AND x.attempt_no <= {row}
				AND x.result IN ('NOT_SENT', 'REFUSED_LATER', 'REFUSED_RAIL', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED',
				'REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS')))
		OR EXISTS (SELECT FROM a WHERE state = 'LATE_OUTCOME' AND attempt_no <= {row}
		AND result IN ('UNKNOWN', 'ACCEPTED')))`,
}

// book is testdata/sentences.yaml: by the place where they are printed.
type book struct {
	mu        sync.Mutex
	untrue    atomic.Bool // a history told something that is not so, or is not in here
	sentences map[string][]*sentence
}

func readBook(t *testing.T) *book {
	t.Helper()
	text, err := os.ReadFile("testdata/sentences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := &book{}
	if err := yaml.UnmarshalWithOptions(text, &b.sentences, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for place, all := range b.sentences {
		for _, s := range all {
			if s.Holds == "" {
				t.Fatalf("%s has a sentence without holds: %+v", place, s)
			}
			s.whole = regexp.MustCompile(`\A(?:` + s.Says + `)\z`)
		}
	}
	return b
}

// find returns the sentence that a text matches, with the SQL that holds if it is true.
func (b *book) find(place, text string) (*sentence, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sentences[place] {
		found := s.whole.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		s.printed++
		holds := s.Holds
		for word, means := range sentenceWords {
			holds = strings.ReplaceAll(holds, "{"+word+"}", means)
		}
		for n, name := range s.whole.SubexpNames() {
			if name != "" {
				holds = strings.ReplaceAll(holds, "{"+name+"}", strings.ReplaceAll(found[n], "'", "''"))
			}
		}
		return s, holds
	}
	return nil, ""
}

// teller plays the history of one instruction, and checks its sentences after each step.
type teller struct {
	*testing.T
	book      *book
	cell      *celltest.Cell
	looker    *pgx.Conn
	onCall    *pgx.Conn // of the operator's login
	reader    *reader.Reader
	operator  *operator.Operator
	executor  *executor.Executor
	callbacks *callbacks.Callbacks
	ingest    *ingest.Ingest
	profile   rails.Profile
	draw      *rand.Rand
	id        payment.ID
	held      *payment.Claim
	claims    []payment.Claim
	story     []string
	told      map[string]bool // what was held to rows that never change
	unchecked []saidSentence  // of this look
}

// saidSentence is a sentence that was printed, and the SQL that has to be true.
type saidSentence struct{ place, text, says, holds string }

// sentenceProfiles are the rails of the histories: those that can't be asked and those
// that can, with an id for one send and for many.
var sentenceProfiles = map[string]string{
	"new id":      `{"resend_on_unknown": "NEVER", "id_after_refusal": "NEW"}`,
	"same key":    `{"resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME"}`,
	"asked":       `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME", "inquiry": {"intervals": ["30m"], "max": 3, "not_found": "INCONCLUSIVE"}}`,
	"provisional": `{"acceptance": "PROVISIONAL", "resend_on_unknown": "NEVER", "inquiry": {"intervals": ["30m"], "max": 3, "not_found": "INCONCLUSIVE"}}`,
}

// TestSentences: the output of payment show and dead-letter show is true of the rows of an
// instruction, sentence by sentence and line by line, in every history.
func TestSentences(t *testing.T) {
	t.Parallel()
	b := readBook(t)
	t.Run("histories", func(t *testing.T) {
		for name, profile := range sentenceProfiles {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tellHistories(t, b, name, profile)
			})
		}
	})
	if b.untrue.Load() {
		return
	}
	for place, all := range b.sentences {
		for _, s := range all {
			if s.printed == 0 && s.Elsewhere == "" {
				t.Errorf("%s: no history printed %q", place, s.Says)
			}
		}
	}
}

// sentenceHistories is how many histories each rail has: those of chance, and one of each
// scene.
var sentenceHistories = 45 + len(sentenceScenes)

func tellHistories(t *testing.T, b *book, name, profile string) {
	cell := celltest.New(t)
	cell.ApplyProfile(celltest.Bank, profile)
	config := func(login string) ledger.Config { return ledger.Config{URL: cell.URL(login), Cell: cell.Schema} }
	w := teller{T: t, book: b, cell: cell, looker: cell.Conn(t, ""), onCall: cell.Conn(t, celltest.Operator)}
	text, err := celltest.Canonical(celltest.Bank, profile)
	if err != nil {
		t.Fatal(err)
	}
	if w.profile, err = rails.ParseProfile(text); err != nil {
		t.Fatal(err)
	}
	opened := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.reader, err = reader.Open(t.Context(), config(celltest.Readonly))
	opened()
	w.operator, err = operator.Open(t.Context(), config(celltest.Operator))
	opened()
	w.executor, err = executor.Open(t.Context(), config(celltest.Relayer))
	opened()
	w.callbacks, err = callbacks.Open(t.Context(), config(celltest.Callbacks))
	opened()
	w.ingest, err = ingest.Open(t.Context(), config(celltest.Ingest))
	opened()
	t.Cleanup(func() {
		w.reader.Close()
		w.operator.Close()
		w.executor.Close()
		w.callbacks.Close()
		w.ingest.Close()
	})
	for n := range sentenceHistories {
		if b.untrue.Load() { // a few histories show what is wrong
			return
		}
		one := w
		one.told = make(map[string]bool)
		one.draw = rand.New(rand.NewPCG(uint64(n), uint64(len(name))))
		if one.tell(n); t.Failed() {
			b.untrue.Store(true)
		}
	}
}

// tell plays one history: it begins in one of several ways, and continues at random.
func (w *teller) tell(n int) {
	w.Helper()
	in := payment.Instruction{
		InstructionID: fmt.Sprintf("INV-%d", n), ParticipantID: "p", IdempotencyKey: "k", RailType: celltest.Bank,
		Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`),
	}
	if w.draw.IntN(5) == 0 {
		in.NotBefore = time.Now().Add(time.Hour)
	}
	in.Priority = []payment.Priority{payment.PriorityNormal, payment.PriorityUrgent, payment.PriorityBulk}[n%3]
	in.SendOnce = n%7 == 3
	receipt, err := w.ingest.Enqueue(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	w.id = receipt.OutboxID
	w.look("enqueued")
	if scene := n - (sentenceHistories - len(sentenceScenes)); scene >= 0 {
		sentenceScenes[scene](w)
	} else {
		w.wander()
	}
	w.cell.Exec(`DELETE FROM railhead.payment_outbox_claims`)
	w.cell.Exec(`DELETE FROM railhead.payment_outbox_pending`)
}

// wander goes on by chance.
func (w *teller) wander() {
	steps := map[string]func() string{
		"claim": w.claim, "answer": w.answer, "die": w.die, "come late": w.comeLate, "call back": w.callBack,
		"cancel": w.cancel, "replay": w.replay, "resolve": w.resolve, "triage": w.triage, "inquire": w.inquire, "reschedule": w.reschedule,
		"expire": w.expire, "quarantined": w.quarantine, "pause": w.pause, "beat": w.beat,
	}
	var names []string
	for name := range steps {
		often := map[string]int{"claim": 16, "answer": 16, "come late": 8, "call back": 6, "resolve": 4, "replay": 4,
			"quarantined": 3, "pause": 1, "beat": 1}
		names = append(names, slices.Repeat([]string{name}, cmp.Or(often[name], 2))...)
	}
	slices.Sort(names)
	for looks, tries := 0, 0; looks < 9 && tries < 90 && !w.Failed(); tries++ {
		name := names[w.draw.IntN(len(names))]
		if said := steps[name](); said != "" {
			w.look(name + " " + said)
			looks++
		}
	}
}

// look compares every sentence about the instruction with its rows.
func (w *teller) look(step string) {
	w.Helper()
	w.story = append(w.story, step)
	// A report that is fresh when it is read is fresh when its sentences are checked, however slow the machine is.
	w.cell.Exec(`UPDATE railhead.outbox_heartbeats SET last_tick_at = clock_timestamp() - interval '10 seconds'
		WHERE last_tick_at BETWEEN clock_timestamp() - interval '15 seconds' AND clock_timestamp() - interval '10 seconds'`)
	line, err := w.reader.Timeline(w.Context(), w.id)
	if err != nil {
		w.Fatal(err)
	}
	word, why := line.Certainty()
	w.hold("state", line.State)
	w.hold("money", explain.MoneyWords(word)+": "+oneLine(why))
	// Why it is not claimed stands at the end, and in status too.
	w.hold("next", strings.TrimSuffix(explain.NextStep(line), "; "+strings.Join(line.NotClaimed, "; ")))
	for _, why := range line.NotClaimed {
		w.hold("status", oneLine(why))
	}
	w.lookAtStory(line)
	if line.DeadLetter != nil {
		w.hold("opened", explain.OpeningLine(line.DeadLetter))
	}
	if line.DeadLetter.Open() {
		w.hold("remedy", explain.Remedy(line))
		w.check()
		w.obey(line)
	}
	w.offer(line)
	if w.draw.IntN(12) == 0 {
		w.lookAtStatus()
		w.lookAtLetters()
	}
	w.check()
}

// hold finds a sentence that is printed somewhere in the book, and has check ask the rows
// whether it is so.
func (w *teller) hold(place, text string) {
	w.Helper()
	s, holds := w.book.find(place, text)
	if s == nil {
		w.Errorf("after %s, %s: the book has no such sentence: %q", strings.Join(w.story, "; "), place, text)
		return
	}
	w.unchecked = append(w.unchecked, saidSentence{place, text, s.Says, holds})
}

// check evaluates the SQL of all sentences since its last call, at once.
func (w *teller) check() {
	w.Helper()
	all := w.unchecked
	if w.unchecked = nil; len(all) == 0 {
		return
	}
	holds := make([]string, 0, len(all))
	for _, one := range all {
		holds = append(holds, "coalesce(("+one.holds+"), false)")
	}
	var are []bool
	if err := w.looker.QueryRow(w.Context(), sentenceRows+strings.Join(holds, ", ")+`]`, pgx.QueryExecModeExec, w.id.String()).Scan(&are); err != nil {
		w.Fatalf("%+v: %v", all, err)
	}
	for n, one := range all {
		if are[n] {
			continue
		}
		var rows string
		w.cell.QueryRow(`SELECT coalesce(string_agg(concat_ws('/', state, nullif(answers_attempt_no, 0), result, error_code, rail_reference, CASE WHEN outcome_unknown THEN 'unknown' END), ' ' ORDER BY attempt_no), '')
			FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, []any{[16]byte(w.id)}, &rows)
		w.Errorf("after %s, %s says %q, which is not so: %s\nrows: %s", strings.Join(w.story, "; "), one.place, one.text,
			one.holds, rows)
	}
}

func (w *teller) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// outcome is what follows from a result, by the rail's own profile.
func (w *teller) outcome(claim payment.Claim, result payment.Result) payment.Outcome {
	o := payment.Outcome{
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: result,
		Latency:  40 * time.Millisecond,
		Decision: w.profile.Decide(claim, payment.Answer{Result: result, Elapsed: time.Millisecond}), WorkerID: "relayer-1",
		ProfileVersion: 1, RenderVersion: "r1",
	}
	if result.NamesPayment() {
		o.RailReference = w.reference()
	}
	if result == payment.ResultRefusedRail && w.draw.IntN(2) == 0 {
		o.RailCode = "X1"
	}
	return o
}

// reference is the rail's name of the payment, and seldom another.
func (w *teller) reference() string {
	if w.draw.IntN(6) == 0 {
		return "ref-2/" + w.id.String()
	}
	return "ref-1/" + w.id.String()
}

func (w *teller) one(results []payment.Result) payment.Result {
	return results[w.draw.IntN(len(results))]
}

func (w *teller) claim() string {
	if w.held != nil || w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_pending
		WHERE next_attempt_at < 'infinity'`) == 0 {
		return ""
	}
	w.cell.Exec(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() WHERE next_attempt_at < 'infinity'`)
	if w.draw.IntN(4) == 0 {
		w.look("it is due")
	}
	done, err := w.executor.Turn(w.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "relayer-1",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 5, Oldest: 2,
			ProfileVersion: w.cell.ProfileInForce(celltest.Bank), RenderVersion: "r1"}},
	}})
	w.must(err)
	if len(done.Claims) == 0 {
		return ""
	}
	w.held = &done.Claims[0]
	w.claims = append(w.claims, done.Claims[0])
	return string(w.held.Action)
}

func (w *teller) answer() string {
	if w.held == nil {
		return ""
	}
	// The last four are the relayer's own.
	results := append(payment.SendResults(), payment.ResultTampered, payment.ResultCheckFailed,
		payment.ResultWindowClosed, payment.ResultRenderChanged)
	if w.held.Action == payment.ActionInquire {
		results = payment.InquiryResults()
	}
	result := w.one(results)
	w.record(w.outcome(*w.held, result))
	return string(result)
}

// askAgain sends, receives no answer until the payment is parked, and has the rail asked
// once more, with a check of the status at each step. The answer comes after the
// operator's evidence, and is "in progress".
func (w *teller) askAgain() {
	if w.profile.Inquiry.Max == 0 {
		return
	}
	for range 9 {
		if w.claim() == "" {
			break
		}
		result := payment.ResultUnknown
		if w.held.Action == payment.ActionInquire {
			result = payment.ResultUnavailable
		}
		w.record(w.outcome(*w.held, result))
	}
	w.look("parked")
	w.paused("parked")
	if w.inquire() == "" {
		w.Fatalf("it can't be asked about again: after %s", strings.Join(w.story, "; "))
	}
	w.look("put out for an inquiry")
	w.paused("put out for an inquiry")
	for _, step := range []func() string{w.claim, w.die} {
		w.lookAtStatus()
		w.look("asked again: " + step())
	}
	w.lookAtStatus()
	_, err := w.operator.ResolvePayment(w.Context(), w.id,
		operator.Evidence{Date: time.Now(), Document: "ticket 1", Reason: "a test", RailSilent: true})
	w.must(err)
	_, err = w.executor.RecordLate(w.Context(), w.outcome(w.claims[len(w.claims)-1], payment.ResultInProgress))
	w.must(err)
	w.look("resolved, and in progress")
}

// die is a worker's end: the reaper answers its claim.
func (w *teller) die() string {
	if w.held == nil {
		return ""
	}
	o := w.outcome(*w.held, "")
	o.Decision, o.Latency, o.WorkerID = w.profile.DecideLost(*w.held, time.Minute, 0), 0, "reaper-1"
	w.record(o)
	return "repaired"
}

func (w *teller) record(o payment.Outcome) {
	w.Helper()
	done, err := w.executor.Turn(w.Context(), outbox.Turn{Outcomes: []payment.Outcome{o}})
	w.must(err)
	for _, late := range done.Late {
		_, err := w.executor.RecordLate(w.Context(), late)
		w.must(err)
	}
	w.held = nil
}

// comeLate is an answer to a claim that has one already.
func (w *teller) comeLate() string {
	if len(w.claims) == 0 {
		return ""
	}
	claim := w.claims[w.draw.IntN(len(w.claims))]
	if w.held != nil && w.held.AttemptNo == claim.AttemptNo {
		return ""
	}
	results := []payment.Result{payment.ResultAccepted, payment.ResultUnknown, payment.ResultRefusedFinal,
		payment.ResultRefusedTransient}
	if claim.Action == payment.ActionInquire {
		results = []payment.Result{payment.ResultExecuted, payment.ResultRefused, payment.ResultNotFound,
			payment.ResultUnavailable, payment.ResultInProgress}
	}
	result := w.one(results)
	verdict, err := w.executor.RecordLate(w.Context(), w.outcome(claim, result))
	w.must(err)
	return fmt.Sprintf("%s: %s", result, verdict)
}

func (w *teller) callBack() string {
	if len(w.claims) == 0 {
		return ""
	}
	o := payment.Outcome{AttemptID: payment.NewID(), Claim: payment.Claim{OutboxID: w.id, RailType: celltest.Bank},
		Result: payment.ResultRefused, WorkerID: "callbacks-1"}
	o.Decision = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
	if w.draw.IntN(2) == 0 {
		o.Result, o.RailReference, o.Decision = payment.ResultExecuted, w.reference(),
			payment.Decision{State: payment.Dispatched}
	}
	verdict, err := w.callbacks.RecordLate(w.Context(), o)
	w.must(err)
	return fmt.Sprintf("%s: %s", o.Result, verdict)
}

// act is an operator's act, which the state may not allow. The sentence of the command is
// compared with the rows.
func (w *teller) act(what, says string, err error) string {
	w.Helper()
	if err == nil {
		w.story = append(w.story, "the act "+what)
		w.hold("act", says)
		w.check()
		w.story = w.story[:len(w.story)-1]
		return what
	}
	if !errors.Is(err, outbox.ErrNotAllowed) && !errors.Is(err, outbox.ErrNotFound) {
		w.Fatal(err)
	}
	return ""
}

func (w *teller) cancel() string {
	done, err := w.operator.CancelPayment(w.Context(), w.id, "a test")
	return w.act("done", cancelled(w.id, done), err)
}

func (w *teller) replay() string {
	row, err := w.operator.ReplayPayment(w.Context(), w.id, time.Time{}, "a test")
	return w.act("done", replayed(w.id, row), err)
}

func (w *teller) triage() string {
	to, done := operator.Acknowledge, "acknowledged"
	switch w.draw.IntN(4) {
	case 0:
		to, done = operator.Escalate, "escalated"
	case 1, 2:
		to, done = operator.Close, "closed"
	}
	before, err := w.operator.TriageDeadLetter(w.Context(), w.id, to, "a test")
	return w.act(done, triaged(done, w.id, before), err)
}

func (w *teller) inquire() string {
	row, err := w.operator.InquirePayment(w.Context(), w.id, "a test")
	return w.act("done", putOut(w.id, row), err)
}

func (w *teller) resolve() string {
	e := operator.Evidence{Date: time.Now(), Document: fmt.Sprintf("ticket %d", w.draw.IntN(1000)), Reason: "a test",
		RailSilent: true}
	what := "not executed"
	if w.draw.IntN(2) == 0 {
		e.Executed, e.RailSilent, e.RailReference, what = true, false, w.reference(), "executed"
	}
	state, err := w.operator.ResolvePayment(w.Context(), w.id, e)
	return w.act(what, resolved(w.id, state), err)
}

func (w *teller) expire() string {
	w.cell.Exec(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'`)
	ended, err := w.executor.Expire(w.Context(), "reaper-1", 10)
	w.must(err)
	return fmt.Sprintf("%d ended", len(ended))
}

func (w *teller) quarantine() string {
	aside, err := w.executor.Quarantine(w.Context(), []payment.ID{w.id}, "SQLSTATE_23514")
	w.must(err)
	if len(aside) == 0 {
		return ""
	}
	return "done"
}

// pause checks the sentences while the rail, everything or the participant is paused.
func (w *teller) pause() string {
	pause, resume, what := w.operator.PauseRail, w.operator.ResumeRail, celltest.Bank
	words := railWords(what)
	switch w.draw.IntN(3) {
	case 0:
		what, words = "*", railWords("*")
	case 1:
		pause, resume, what, words = w.operator.PauseParticipant, w.operator.ResumeParticipant, "p", "participant p"
	}
	var until time.Time
	if w.draw.IntN(2) == 0 {
		until = time.Now().Add(time.Hour)
	}
	changed, err := pause(w.Context(), what, "a test", until)
	w.must(err)
	w.look("paused " + what)
	w.hold("act", paused(words, changed, w.pauseOf(what)))
	if w.draw.IntN(3) == 0 {
		changed, err = pause(w.Context(), what, "once more", until)
		w.must(err)
		w.hold("act", paused(words, changed, w.pauseOf(what)))
	}
	w.check()
	gate := []reader.Gate{{Scope: reader.GateRail, Name: celltest.Bank},
		{Scope: reader.GateCell, Name: operator.Everything}, {Scope: reader.GateParticipant, Name: "p"}}[len(w.story)%3]
	changed, err = w.operator.CloseEnqueue(w.Context(), gate, "a test", until)
	w.must(err)
	w.hold("act", gateClosed(gate, changed, w.closedGate(gate)))
	w.lookAtStatus()
	for range 2 { // the second finds it open
		ended := w.closedGate(gate)
		changed, err = w.operator.OpenEnqueue(w.Context(), gate, "a test")
		w.must(err)
		w.hold("act", gateOpened(gate, changed, ended, w.closedGate(everythingGate)))
		w.check()
	}
	for range 2 {
		ended := w.pauseOf(what)
		changed, err = resume(w.Context(), what, "a test")
		w.must(err)
		w.hold("act", resumed(words, changed, ended, w.pauseOf("*")))
		w.check()
	}
	return "resumed"
}

// pauseOf is the pause in force of what pause named.
func (w *teller) pauseOf(what string) *reader.Pause {
	w.Helper()
	find := w.reader.RailPause
	if what == "p" {
		find = w.reader.ParticipantPause
	}
	pause, err := find(w.Context(), what)
	w.must(err)
	return pause
}

func (w *teller) closedGate(gate reader.Gate) *reader.ClosedGate {
	w.Helper()
	closed, err := w.reader.ClosedGate(w.Context(), gate)
	w.must(err)
	return closed
}

// reschedule changes when what waits is due.
func (w *teller) reschedule() string {
	var due time.Time
	if w.draw.IntN(2) == 0 {
		due = time.Now().Add(time.Hour)
	}
	changed, err := w.operator.ReschedulePayment(w.Context(), w.id, due, "a test")
	if errors.Is(err, outbox.ErrNotAllowed) {
		return "refused"
	}
	return w.act("rescheduled", dueChanged(w.id, changed), err)
}

// beat is a relayer's: it serves the rail or another one, is busy, stopped or silent.
func (w *teller) beat() string {
	lanes := map[string]outbox.LaneReport{
		"free":      {RailType: celltest.Bank, Slots: 4, Calls: 3, Breaker: "CLOSED"},
		"busy":      {RailType: celltest.Bank, Slots: 4, Calls: 4, Breaker: "CLOSED"},
		"open":      {RailType: celltest.Bank, Slots: 4, Breaker: "OPEN", OpenMS: 30_000},
		"suspended": {RailType: celltest.Bank, Slots: 4, Breaker: "CLOSED", Suspended: "lanes are suspended by a test"},
		"halted":    {RailType: celltest.Bank, Slots: 4, Breaker: "CLOSED", StoppedMS: 30_000},
		"elsewhere": {RailType: "other", Slots: 4, Breaker: "CLOSED"},
		"behind":    {RailType: celltest.Bank, Slots: 4, Breaker: "CLOSED"},
	}
	inForce := w.cell.ProfileInForce(celltest.Bank)
	for what, lane := range lanes {
		lane.ProfileVersion = inForce
		if what == "behind" {
			lane.ProfileVersion--
		}
		lanes[what] = lane
	}
	names := slices.Sorted(maps.Keys(lanes))
	what := names[w.draw.IntN(len(names))]
	h := outbox.Heartbeat{Name: fmt.Sprintf("relayer-%d", w.draw.IntN(2)), Kind: "relayer", Host: "h", Version: "v",
		Status: "running", Vouched: true, Lanes: []outbox.LaneReport{lanes[what]}}
	if w.draw.IntN(4) == 0 {
		h.Status, what = "stopped", "stopped"
	}
	_, err := w.executor.Heartbeat(w.Context(), h)
	w.must(err)
	if w.draw.IntN(4) == 0 {
		w.cell.Exec(fmt.Sprintf(`UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - interval '%d seconds'
			WHERE name = '%s'`, []int{10, 60, 3700, 90000}[w.draw.IntN(4)], h.Name))
		what += " and silent"
	}
	return h.Name + " " + what
}

// suspend checks the sentences while no relayer has confirmed that nothing is missing, and while lanes are suspended.
func (w *teller) suspend() {
	w.step(w.quarantine)
	w.step(w.beat)
	w.cell.Exec(`UPDATE railhead.outbox_heartbeats SET vouched = false`)
	w.look("unconfirmed")
	w.cell.Exec(`UPDATE railhead.outbox_heartbeats SET vouched = true`)
	w.cell.Exec(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '1 hour')`)
	w.look("suspended")
	var since time.Time
	w.must(w.looker.QueryRow(w.Context(), `SELECT opened_at FROM railhead.payment_outbox_suspensions
		WHERE accepted_at IS NULL`).Scan(&since))
	server, err := w.operator.AcceptTimeline(w.Context(), since, "a test")
	w.must(err)
	w.hold("act", accepted(server))
	w.check()
}

// setBudget changes the cell's claim timeout, and then sets what is in force.
func (w *teller) setBudget() {
	for _, timeout := range []time.Duration{4 * time.Minute, 4 * time.Minute} {
		version, changed, err := w.operator.SetTimeBudget(w.Context(), map[string]time.Duration{"claim_timeout": timeout},
			"a test")
		w.must(err)
		w.hold("act", budgetSet(version, changed))
		w.check()
	}
}
