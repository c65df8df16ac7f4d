package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// sentence is one of testdata/sentences.yaml.
type sentence struct {
	Says  string `yaml:"says"`
	Holds string `yaml:"holds"`
	// Elsewhere says why no history of this test need print it; empty: one has to.
	Elsewhere string `yaml:"elsewhere"`

	whole   *regexp.Regexp
	printed int
}

// sentenceRows is what the SQL of a sentence sees of instruction $1.
const sentenceRows = `
	WITH a AS MATERIALIZED (SELECT * FROM railhead.payment_outbox_attempts WHERE outbox_id = $1),
	l AS (SELECT * FROM a WHERE state <> 'LATE_OUTCOME' ORDER BY attempt_no DESC LIMIT 1),
	p AS (SELECT * FROM railhead.payment_outbox_pending WHERE outbox_id = $1),
	d AS (SELECT *, status NOT IN ('manual_replay', 'resolved') AS open FROM railhead.payment_dead_letters WHERE outbox_id = $1),
	k AS (SELECT * FROM railhead.payment_outbox_keys WHERE outbox_id = $1),
	g AS (SELECT * FROM railhead.payment_operator_log WHERE outbox_id = $1),
	r AS (SELECT v.profile FROM railhead.payment_rails b JOIN railhead.payment_rail_profiles v ON v.rail_type = b.rail_type AND v.version = b.profile_version WHERE b.rail_type = 'bank')
	SELECT coalesce((`

// sentenceWords are what the book's SQL says more than once.
var sentenceWords = map[string]string{
	"executed_by_rail": `EXISTS (SELECT FROM a WHERE error_code IS DISTINCT FROM 'RESOLVED' AND (state = 'DISPATCHED' OR result = 'EXECUTED'))`,
	"refused_by_rail":  `EXISTS (SELECT FROM a WHERE error_code IS DISTINCT FROM 'RESOLVED' AND result IN ('REFUSED', 'REFUSED_FINAL'))`,
	// As of a row some send, of a claim or of one that a restore forgot, is not known to have ended.
	"doubted": `(EXISTS (
		SELECT FROM a c WHERE c.state = 'DISPATCHING' AND c.attempt_no <= {row} AND NOT EXISTS (
			SELECT FROM a x WHERE x.answers_attempt_no = c.attempt_no AND x.attempt_no <= {row}
				AND x.result IN ('NOT_SENT', 'REFUSED_LATER', 'REFUSED_RAIL', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED',
				'REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS')))
		OR EXISTS (SELECT FROM a WHERE state = 'LATE_OUTCOME' AND attempt_no <= {row} AND result IN ('UNKNOWN', 'ACCEPTED')))`,
}

// book is testdata/sentences.yaml: by the place where they are printed.
type book struct {
	mu        sync.Mutex
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
			if s.Says == "" || s.Holds == "" {
				t.Fatalf("%s has a sentence without says or holds: %+v", place, s)
			}
			s.whole = regexp.MustCompile(`\A(?:` + s.Says + `)\z`)
		}
	}
	return b
}

// find gives the sentence that a text is, with what holds of the rows if it is true.
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

// teller plays the history of one instruction, and looks at it after each step.
type teller struct {
	*testing.T
	book      *book
	cell      *celltest.Cell
	looker    *pgx.Conn
	reader    *ledger.Reader
	operator  *ledger.Operator
	executor  *ledger.Executor
	callbacks *ledger.Callbacks
	ingest    *ledger.Ingest
	profile   rails.Profile
	draw      *rand.Rand
	id        payment.ID
	held      *payment.Claim
	claims    []payment.Claim
	story     []string
}

// sentenceProfiles are the rails of the histories: those that can't be asked and those
// that can, with an id for one send and for many.
var sentenceProfiles = map[string]string{
	"new id":      `{"resend_on_unknown": "NEVER", "id_after_refusal": "NEW"}`,
	"same key":    `{"resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME"}`,
	"asked":       `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME", "inquiry": {"intervals": ["30m"], "max": 3, "not_found": "INCONCLUSIVE"}}`,
	"provisional": `{"acceptance": "PROVISIONAL", "resend_on_unknown": "NEVER", "inquiry": {"intervals": ["30m"], "max": 3, "not_found": "INCONCLUSIVE"}}`,
}

// TestSentences: what payment show and dead-letter show say of an instruction is true of
// its rows, sentence by sentence, whatever became of it.
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
	for place, all := range b.sentences {
		for _, s := range all {
			if s.printed == 0 && s.Elsewhere == "" {
				t.Errorf("%s: no history printed %q", place, s.Says)
			}
		}
	}
}

// sentenceHistories is how many histories each rail has.
const sentenceHistories = 45

func tellHistories(t *testing.T, b *book, name, profile string) {
	cell := celltest.New(t)
	cell.ApplyProfile(celltest.Bank, profile)
	config := func(login string) ledger.Config { return ledger.Config{URL: cell.URL(login), Cell: cell.Schema} }
	w := teller{T: t, book: b, cell: cell, looker: cell.Conn(t, "")}
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
	w.reader, err = ledger.OpenReader(t.Context(), config(celltest.Readonly))
	opened()
	w.operator, err = ledger.OpenOperator(t.Context(), config(celltest.Operator))
	opened()
	w.executor, err = ledger.OpenExecutor(t.Context(), config(celltest.Relayer))
	opened()
	w.callbacks, err = ledger.OpenCallbacks(t.Context(), config(celltest.Callbacks))
	opened()
	w.ingest, err = ledger.OpenIngest(t.Context(), config(celltest.Ingest))
	opened()
	t.Cleanup(func() {
		w.reader.Close()
		w.operator.Close()
		w.executor.Close()
		w.callbacks.Close()
		w.ingest.Close()
	})
	for n := range sentenceHistories {
		one := w
		one.draw = rand.New(rand.NewPCG(uint64(n), uint64(len(name))))
		one.tell(n)
	}
}

// tell plays one history: it begins in one of several ways, and goes on by chance.
func (w *teller) tell(n int) {
	w.Helper()
	in := payment.Instruction{
		InstructionID: fmt.Sprintf("INV-%d", n), ParticipantID: "p", IdempotencyKey: "k", RailType: celltest.Bank,
		Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`),
	}
	if w.draw.IntN(5) == 0 {
		in.NotBefore = time.Now().Add(time.Hour)
	}
	receipt, err := w.ingest.Enqueue(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	w.id = receipt.OutboxID
	w.look("enqueued")
	if n == sentenceHistories-1 { // what comes after it can't be told from what a restore forgot
		w.suspend()
		return
	}
	steps := map[string]func() string{
		"claim": w.claim, "answer": w.answer, "die": w.die, "come late": w.comeLate, "call back": w.callBack,
		"cancel": w.cancel, "replay": w.replay, "resolve": w.resolve, "close": w.close, "inquire": w.inquire,
		"expire": w.expire, "set aside": w.setAside, "pause": w.pause,
	}
	var names []string
	for name := range steps {
		often := map[string]int{"claim": 8, "answer": 8, "come late": 4, "call back": 3, "resolve": 2, "replay": 2}
		names = append(names, slices.Repeat([]string{name}, max(often[name], 1))...)
	}
	slices.Sort(names)
	for looks, tries := 0, 0; looks < 9 && tries < 90 && !w.Failed(); tries++ {
		name := names[w.draw.IntN(len(names))]
		if said := steps[name](); said != "" {
			w.look(name + " " + said)
			looks++
		}
	}
	w.cell.Exec(`DELETE FROM railhead.payment_outbox_claims`)
	w.cell.Exec(`DELETE FROM railhead.payment_outbox_pending`)
}

// look holds every sentence about the instruction to its rows.
func (w *teller) look(step string) {
	w.Helper()
	w.story = append(w.story, step)
	line, err := w.reader.Timeline(w.Context(), w.id)
	if err != nil {
		w.Fatal(err)
	}
	word, why := line.Certainty()
	texts := map[string]string{"state": line.State, "money": moneyWords(word) + ": " + oneLine(why), "next": nextStep(line)}
	if line.DeadLetter.Open() {
		texts["remedy"] = remedy(line)
	}
	for place, text := range texts {
		s, holds := w.book.find(place, text)
		if s == nil {
			w.Errorf("after %s, %s: the book has no such sentence: %q", strings.Join(w.story, "; "), place, text)
			continue
		}
		var is bool
		if err := w.looker.QueryRow(w.Context(), sentenceRows+holds+`), false)`, [16]byte(w.id)).Scan(&is); err != nil {
			w.Fatalf("%s: %s: %v", place, s.Says, err)
		}
		if !is {
			var rows string
			w.cell.QueryRow(`SELECT coalesce(string_agg(concat_ws('/', state, nullif(answers_attempt_no, 0), result, error_code, rail_reference, CASE WHEN outcome_unknown THEN 'unknown' END), ' ' ORDER BY attempt_no), '')
				FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, []any{[16]byte(w.id)}, &rows)
			w.Errorf("after %s, %s says %q, which is not so: %s\nrows: %s", strings.Join(w.story, "; "), place, text, holds, rows)
		}
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
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: result, Latency: 40 * time.Millisecond,
		Decision: w.profile.Decide(claim, payment.Answer{Result: result, Elapsed: time.Millisecond}), WorkerID: "relayer-1", ProfileVersion: 1, RenderVersion: "r1",
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
		return "ref-2"
	}
	return "ref-1"
}

func (w *teller) one(results []payment.Result) payment.Result {
	return results[w.draw.IntN(len(results))]
}

func (w *teller) claim() string {
	if w.held != nil || w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_pending WHERE next_attempt_at < 'infinity'`) == 0 {
		return ""
	}
	w.cell.Exec(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() WHERE next_attempt_at < 'infinity'`)
	if w.draw.IntN(4) == 0 {
		w.look("it is due")
	}
	done, err := w.executor.Turn(w.Context(), payment.Turn{Claim: payment.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "relayer-1",
		Lanes: []payment.Lane{{RailType: celltest.Bank, Free: 5, Oldest: 2, ProfileVersion: 1, RenderVersion: "r1"}},
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
	results := append(payment.SendResults(), payment.ResultTampered, payment.ResultCheckFailed, payment.ResultWindowClosed, payment.ResultRenderChanged)
	if w.held.Action == payment.ActionInquire {
		results = payment.InquiryResults()
	}
	result := w.one(results)
	w.record(w.outcome(*w.held, result))
	return string(result)
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
	done, err := w.executor.Turn(w.Context(), payment.Turn{Outcomes: []payment.Outcome{o}})
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
	results := []payment.Result{payment.ResultAccepted, payment.ResultUnknown, payment.ResultRefusedFinal, payment.ResultRefusedTransient}
	if claim.Action == payment.ActionInquire {
		results = []payment.Result{payment.ResultExecuted, payment.ResultRefused, payment.ResultNotFound, payment.ResultUnavailable}
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
	o := payment.Outcome{AttemptID: payment.NewID(), Claim: payment.Claim{OutboxID: w.id, RailType: celltest.Bank}, Result: payment.ResultRefused, WorkerID: "callbacks-1"}
	o.Decision = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
	if w.draw.IntN(2) == 0 {
		o.Result, o.RailReference, o.Decision = payment.ResultExecuted, w.reference(), payment.Decision{State: payment.Dispatched}
	}
	verdict, err := w.callbacks.RecordLate(w.Context(), o)
	w.must(err)
	return fmt.Sprintf("%s: %s", o.Result, verdict)
}

// act is an operator's, which the state may not allow.
func (w *teller) act(what string, err error) string {
	w.Helper()
	if err == nil {
		return what
	}
	if !errors.Is(err, payment.ErrNotAllowed) && !errors.Is(err, payment.ErrNotFound) {
		w.Fatal(err)
	}
	return ""
}

func (w *teller) cancel() string {
	_, err := w.operator.CancelPayment(w.Context(), w.id, "a test")
	return w.act("done", err)
}

func (w *teller) replay() string {
	_, err := w.operator.ReplayPayment(w.Context(), w.id, time.Time{}, "a test")
	return w.act("done", err)
}

func (w *teller) close() string {
	_, err := w.operator.TriageDeadLetter(w.Context(), w.id, ledger.Close, "a test")
	return w.act("done", err)
}

func (w *teller) inquire() string {
	_, err := w.operator.InquirePayment(w.Context(), w.id, "a test")
	return w.act("done", err)
}

func (w *teller) resolve() string {
	e := ledger.Evidence{Date: time.Now(), Document: fmt.Sprintf("ticket %d", w.draw.IntN(1000)), Reason: "a test", RailSilent: true}
	what := "not executed"
	if w.draw.IntN(2) == 0 {
		e.Executed, e.RailSilent, e.RailReference, what = true, false, "ref-1", "executed"
	}
	_, err := w.operator.ResolvePayment(w.Context(), w.id, e)
	return w.act(what, err)
}

func (w *teller) expire() string {
	w.cell.Exec(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'`)
	ended, err := w.executor.Expire(w.Context(), "reaper-1", 10)
	w.must(err)
	return fmt.Sprintf("%d ended", len(ended))
}

func (w *teller) setAside() string {
	aside, err := w.executor.SetAside(w.Context(), []payment.ID{w.id}, "SQLSTATE_23514")
	w.must(err)
	if len(aside) == 0 {
		return ""
	}
	return "done"
}

// pause looks while the rail is paused.
func (w *teller) pause() string {
	_, err := w.operator.PauseRail(w.Context(), celltest.Bank, "a test")
	w.must(err)
	w.look("paused")
	_, err = w.operator.ResumeRail(w.Context(), celltest.Bank, "a test")
	w.must(err)
	return "resumed"
}

// suspend looks while lanes are suspended.
func (w *teller) suspend() {
	w.cell.Exec(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '1 hour')`)
	w.look("suspended")
	_, err := w.operator.AcceptTimeline(w.Context(), "a test")
	w.must(err)
}
