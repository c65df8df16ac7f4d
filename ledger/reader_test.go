package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func openReader(t testing.TB, cell *celltest.Cell) *reader.Reader {
	t.Helper()
	reader, err := reader.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Readonly), Cell: cell.Schema,
		Name: "reader of a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return reader
}

func openOperator(t testing.TB, cell *celltest.Cell) *operator.Operator {
	t.Helper()
	operator, err := operator.Open(t.Context(),
		ledger.Config{URL: cell.URL(celltest.Operator), Cell: cell.Schema, Name: "operator of a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(operator.Close)
	return operator
}

// policy is the bank's.
func policy() payment.Policy {
	return payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour), IDAfterRefusal: payment.IDSame,
	}.WithDefaults()
}

// answer records what a rail said to each claim, and leaves the claim statement
// open for its other members.
func answer(
	t testing.TB, executor *executor.Executor, claims []payment.Claim, result payment.Result, evidence payment.Outcome,
) {
	t.Helper()
	turn := outbox.Turn{}
	for _, claim := range claims {
		outcome := evidence
		outcome.AttemptID, outcome.ParkAttemptID, outcome.Claim, outcome.Result = payment.NewID(), payment.NewID(), claim,
			result
		outcome.Decision = policy().Decide(claim, payment.Answer{Result: result, Elapsed: time.Millisecond})
		outcome.Latency, outcome.WorkerID, outcome.ProfileVersion, outcome.RenderVersion = 7*time.Millisecond,
			"worker-of-a-test", 1, "r1"
		turn.Outcomes = append(turn.Outcomes, outcome)
	}
	done, err := executor.Turn(t.Context(), turn)
	if err != nil || len(done.Late) != 0 {
		t.Fatalf("%d late, %v", len(done.Late), err)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, executor, looker := openIngest(t, cell, 1), openExecutor(t, cell), openReader(t, cell)
	in := order(1)
	in.Payload = []byte(`{"amount": "10.5", "currency": "EUR", "payee": "x"}`)
	receipt, err := ingest.Enqueue(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	look := func(state string, rows int, want reader.Certainty) reader.Timeline {
		t.Helper()
		line, err := looker.Timeline(t.Context(), receipt.OutboxID)
		if err != nil {
			t.Fatal(err)
		}
		got, why := line.Certainty()
		if line.State != state || len(line.Attempts) != rows || got != want || why == "" {
			t.Errorf("state %s with %d rows, certainty %s (%s); want %s, %d, %s", line.State, len(line.Attempts), got, why,
				state, rows, want)
		}
		return line
	}
	waiting := look("PENDING", 0, reader.NotSent)
	if waiting.Amount != "10.50" || waiting.Currency != "EUR" || waiting.RailKey != cell.RailKey(receipt.OutboxID) ||
		waiting.EnqueuedBy != celltest.Ingest || waiting.Priority == nil || *waiting.Priority != 1 ||
		waiting.Pending == nil || waiting.Pending.DueInMS > 0 {
		t.Errorf("head %+v, pending %+v", waiting, waiting.Pending)
	}

	claims := claimAll(t, executor)
	look("DISPATCHING", 1, reader.OutcomeUnknown)
	answer(t, executor, claims, payment.ResultRefusedTransient,
		payment.Outcome{RailCode: "AM04", ErrorMessage: "no funds"})
	refused := look("PENDING", 2, reader.RailRefused)
	if row := refused.Attempts[1]; row.RailCode != "AM04" || row.AnswersAttemptNo != 1 || *row.LatencyMS != 7 ||
		row.Actor != celltest.Relayer {
		t.Errorf("outcome %+v", row)
	}
	if refused.Pending.SendCount != 1 || refused.Pending.NextAction != "SEND" {
		t.Errorf("pending %+v", refused.Pending)
	}

	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now()")
	answer(t, executor, claimAll(t, executor), payment.ResultUnknown, payment.Outcome{})
	look("UNKNOWN", 4, reader.OutcomeUnknown)

	cell.Exec("UPDATE railhead.payment_rails SET paused = true, paused_by = 'amy', paused_at = now(), pause_reason = " +
		"'bank is down' WHERE rail_type = 'bank'")
	if paused := look("UNKNOWN", 4, reader.OutcomeUnknown).Pending.Pause; paused == nil || paused.What != "rail bank" ||
		paused.By != "amy" {
		t.Errorf("pause %+v", paused)
	}
	cell.Exec("UPDATE railhead.payment_rails SET paused = false WHERE rail_type = 'bank'")

	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now()")
	answer(t, executor, claimAll(t, executor), payment.ResultAccepted, payment.Outcome{RailReference: "REF-1"})
	cell.Exec("INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason) VALUES ('NOTE', 'x', $1, "+
		"'called the bank')", receipt.OutboxID.String())
	done := look("DISPATCHED", 6, reader.RailAccepted)
	if done.Pending != nil || done.DeadLetter != nil || len(done.Acts) != 1 || done.Acts[0].Reason != "called the bank" {
		t.Errorf("at the end %+v", done)
	}

	for by, reference := range map[string]string{
		"rail_key":  cell.RailKey(receipt.OutboxID),
		"outbox_id": receipt.OutboxID.String(), "instruction_id": in.InstructionID, "rail_reference": "REF-1",
	} {
		found, err := looker.Find(t.Context(), reference)
		if err != nil || len(found) != 1 || found[0].OutboxID != receipt.OutboxID || found[0].FoundBy != by {
			t.Errorf("by %s: %+v, %v", by, found, err)
		}
	}
}

// TestPriorityOfWhatIsGone: where no row says the priority any more, none is said, and
// urgent least of all, which is 0.
func TestPriorityOfWhatIsGone(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, reader := openIngest(t, cell, 1), openReader(t, cell)
	in := order(1)
	in.Priority = payment.PriorityUrgent
	receipt, err := ingest.Enqueue(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	priority := func() *int {
		t.Helper()
		line, err := reader.Timeline(t.Context(), receipt.OutboxID)
		if err != nil {
			t.Fatal(err)
		}
		return line.Priority
	}
	if p := priority(); p == nil || *p != 0 {
		t.Errorf("an urgent payment has the priority %v", p)
	}
	cell.Exec(`DELETE FROM railhead.payment_outbox_pending`)
	if p := priority(); p != nil {
		t.Errorf("a payment of which only the key is left has the priority %d", *p)
	}
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	reader := openReader(t, celltest.New(t))
	for _, reference := range []string{"", "unknown", payment.NewID().String(), "a\x00b", "\xff"} {
		if found, err := reader.Find(t.Context(), reference); !errors.Is(err, outbox.ErrNotFound) {
			t.Errorf("%q: %+v, %v", reference, found, err)
		}
	}
	if _, err := reader.Timeline(t.Context(), payment.NewID()); !errors.Is(err, outbox.ErrNotFound) {
		t.Error(err)
	}
}

func TestFindSeveral(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 1)
	for n, participant := range []string{"p1", "p2", "p3"} {
		in := order(n)
		in.InstructionID, in.ParticipantID = "shared", participant
		if _, err := ingest.Enqueue(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	found, err := openReader(t, cell).Find(t.Context(), "shared")
	if err != nil || len(found) != 3 || found[0].ParticipantID != "p1" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestFindOwnName: what is the outbox id of one, else its rail key, is that one, whatever other callers name theirs.
func TestFindOwnName(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, looker := openIngest(t, cell, 1), openReader(t, cell)
	enqueue := func(n int, instruction string) payment.ID {
		t.Helper()
		in := order(n)
		if instruction != "" {
			in.InstructionID, in.ParticipantID = instruction, "hostile"
		}
		receipt, err := ingest.Enqueue(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return receipt.OutboxID
	}
	first := enqueue(1, "")
	for n, by := range []string{"outbox_id", "rail_key"} {
		reference := []string{first.String(), cell.RailKey(first)}[n]
		other := enqueue(n+2, reference)
		found, err := looker.Find(t.Context(), reference)
		if err != nil || len(found) != 1 || found[0].OutboxID != first || found[0].FoundBy != by || found[0].Others != 1 ||
			found[0].Mistakable(reference) {
			t.Errorf("%s: %+v, %v", reference, found, err)
		}
		if found, err = looker.Find(t.Context(), other.String()); err != nil || found[0].OutboxID != other ||
			found[0].Others != 0 {
			t.Errorf("the other: %+v, %v", found, err)
		}
	}
	// One that is named by its own outbox id is found by that.
	cell.Exec(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER ALL;
		UPDATE railhead.payment_outbox_keys SET instruction_id = outbox_id::text WHERE participant_id <> 'hostile'`)
	found, err := looker.Find(t.Context(), first.String())
	if err != nil || len(found) != 1 || found[0].FoundBy != "outbox_id" {
		t.Errorf("%+v, %v", found, err)
	}
	away := payment.NewID().String()
	enqueue(4, away)
	if found, err := looker.Find(t.Context(), away); err != nil || len(found) != 1 || !found[0].Mistakable(away) {
		t.Errorf("the name of another cell's payment: %+v, %v", found, err)
	}
}

// TestStatus puts a known number of instructions into each place that a status
// counts, and reads them back.
func TestStatus(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.ApplyProfile("slow", celltest.BankProfile)
	ingest, executor := openIngest(t, cell, 1), openExecutor(t, cell)
	var all []payment.Instruction
	for n := range 6 {
		all = append(all, order(n))
	}
	if _, err := ingest.EnqueueBatch(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	claims := claimAll(t, executor)
	answer(t, executor, claims[:1], payment.ResultUnknown, payment.Outcome{})       // waits with its outcome unknown
	answer(t, executor, claims[1:2], payment.ResultRefusedFinal, payment.Outcome{}) // a dead letter
	answer(t, executor, claims[2:3], payment.ResultAccepted, payment.Outcome{})     // done; three stay in flight
	for n := range 3 {
		in := order(10 + n)
		in.RailType = "slow"
		if n == 0 {
			in.NotBefore = time.Now().Add(time.Hour)
		}
		if _, err := ingest.Enqueue(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	cell.Exec("UPDATE railhead.payment_rails SET paused = true, paused_by = 'amy', paused_at = now(), pause_reason = " +
		"'drill' WHERE rail_type IN ('slow', '*')")
	cell.Exec("INSERT INTO railhead.payment_paused_participants VALUES ('p9', 'amy', now(), 'fraud desk asked')")
	for name, status := range map[string]string{"a": "running", "b": "running", "c": "running", "d": "stopped"} {
		if _, err := executor.Heartbeat(t.Context(),
			outbox.Heartbeat{Name: name, Kind: "relayer", Host: "h", Version: "v", Status: status}); err != nil {
			t.Fatal(err)
		}
	}
	cell.Exec("UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - interval '10 seconds' WHERE name = 'b'")
	cell.Exec("UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - interval '1 minute' WHERE name = 'c'")

	status, err := openReader(t, cell).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Rails) != 2 || status.Everything == nil || status.Everything.By != "amy" {
		t.Fatalf("%+v", status)
	}
	bank, slow := status.Rails[0], status.Rails[1]
	if bank.Pending != 1 || bank.InFlight != 3 || bank.OutcomeUnknown != 1 || bank.Pause != nil || bank.Capped ||
		len(bank.DeadLetters) != 1 || bank.DeadLetters[0].Reason != payment.DeadFailed || bank.DeadLetters[0].Open != 1 {
		t.Errorf("bank %+v", bank)
	}
	if slow.Pending != 3 || slow.Due != 2 || slow.InFlight != 0 || slow.Pause == nil || slow.Pause.Reason != "drill" {
		t.Errorf("slow %+v", slow)
	}
	if len(status.Participants) != 1 || status.Participants[0].What != "participant p9" {
		t.Errorf("participants %+v", status.Participants)
	}
	want := map[string]reader.Freshness{"a": reader.Fresh, "b": reader.Warning, "c": reader.Stale, "d": reader.Stopped}
	for _, beat := range status.Heartbeats {
		if beat.Freshness != want[beat.Name] {
			t.Errorf("%s is %s, want %s", beat.Name, beat.Freshness, want[beat.Name])
		}
		delete(want, beat.Name)
	}
	if len(want) != 0 {
		t.Errorf("missing %v", want)
	}
}

func TestOperator(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	operator := openOperator(t, cell)
	profile, err := celltest.Canonical("other", celltest.BankProfile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		version, changed, err := operator.ApplyRailProfile(t.Context(), "other", profile, "a new rail")
		if err != nil || version != 1 || changed != want {
			t.Errorf("version %d, changed %t, %v", version, changed, err)
		}
	}
	if _, _, err := operator.ApplyRailProfile(t.Context(), "other", profile, " "); !errors.Is(err, outbox.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	server, err := operator.AcceptTimeline(t.Context(), time.Time{}, "compared with the bank's statement")
	if err != nil || server.SystemIdentifier == "" || server.Timeline < 1 {
		t.Errorf("%+v, %v", server, err)
	}
	if seen, err := openExecutor(t, cell).CheckServer(t.Context()); err != nil || seen.AcceptedAt.IsZero() {
		t.Errorf("the relayer sees %+v, %v", seen, err)
	}
	if _, err := operator.AcceptTimeline(t.Context(), time.Time{}, ""); !errors.Is(err, outbox.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	if n := cell.Int("SELECT count(*) FROM railhead.payment_operator_log WHERE actor = $1", celltest.Operator); n != 2 {
		t.Errorf("%d acts are logged, want 2", n)
	}
}

// TestStatusCutShort: where a status has less than there is, it says so.
func TestStatusCutShort(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	looker := openReader(t, cell)
	status, err := looker.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "parts cut short of an empty cell", len(status.CutShort), 0)
	cell.Exec(`INSERT INTO railhead.payment_paused_participants SELECT 'p' || n, 'amy', now(), 'a test'
		FROM generate_series(1, 101) n`)
	cell.Exec(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, lanes)
		SELECT 'relayer-' || n, 'relayer', 'h', 'v', 'running', (SELECT jsonb_agg(jsonb_build_object('rail_type', 'rail-' || m)) FROM generate_series(1, 5) m)
		FROM generate_series(1, 201) n`)
	cell.Exec(`INSERT INTO railhead.payment_outbox_claims (claim_id, worker_id, claimed_at, outbox_ids, attempt_nos)
		SELECT gen_random_uuid(), 'relayer-1', now(), array_agg(railhead.uuidv7()), array_agg(1)
		FROM generate_series(1, 20001)`)
	if status, err = looker.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	for part, want := range map[reader.Part]bool{
		reader.PartRails: false, reader.PartDeadLetters: false,
		reader.PartParticipants: true, reader.PartHeartbeats: true, reader.PartLanes: true, reader.PartInFlight: true,
	} {
		same(t, string(part)+" is cut short", status.IsCutShort(part), want)
	}
	same(t, "participants", len(status.Participants), 100)
	same(t, "heartbeats", len(status.Heartbeats), 200)
	for _, rail := range status.Rails {
		same(t, "nothing is said of relayers that were not read", len(rail.NotClaimed), 0)
	}
}

// TestStatusOfManyLetters: a rail with more open dead letters than are counted hides neither those of another rail nor
// their age, and the status says that it has not counted all.
func TestStatusOfManyLetters(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	looker := openReader(t, cell)
	insert := `INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason,
		  opened_at)
		SELECT gen_random_uuid(), 'i', 'p', $1, $2, now() - $3::bigint * interval '1 hour' FROM generate_series(1, $4::integer)`
	cell.Exec(insert, "another", "OUTCOME_UNKNOWN", 1, reader.CountMax/2)
	cell.Exec(insert, "bank", "OUTCOME_UNKNOWN", 3, 7)
	status, err := looker.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "letters are cut short", status.IsCutShort(reader.PartDeadLetters), false)
	cell.Exec(insert, "another", "OUTCOME_UNKNOWN", 2, reader.CountMax/2+1)
	if status, err = looker.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "letters are cut short", status.IsCutShort(reader.PartDeadLetters), true)
	rail := status.Rails[0]
	letters := rail.DeadLetters
	if len(letters) != 1 || letters[0].Open != 7 || letters[0].OldestMS < 3*3600*1000 || rail.OutcomeUnknown != 7 {
		t.Errorf("of the rail with seven letters: %+v", rail)
	}
}

// TestTokensAreCut: where there are more tokens than are listed, the reader says so.
func TestTokensAreCut(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	looker := openReader(t, cell)
	insert := `INSERT INTO railhead.payment_api_tokens (token_digest, token_id, name, participants, verbs, created_at,
		  expires_at)
		SELECT sha256(n::text::bytea), left(encode(sha256(n::text::bytea), 'hex'), 16), 'token ' || n, '{p1}', '{READ}',
		  now() - n * interval '1 minute', now() + interval '1 day'
		FROM generate_series($1::integer, $2::integer) n`
	cell.Exec(insert, 1, reader.TokensMax)
	for _, cut := range []bool{false, true} {
		if cut {
			cell.Exec(insert, reader.TokensMax+1, reader.TokensMax+1)
		}
		all, cutShort, err := looker.Tokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "tokens", len(all), reader.TokensMax)
		same(t, "older ones are left out", cutShort, cut)
		same(t, "the first", all[0].Name, "token 1")
	}
}
