package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestRailProfiles: the profile in force, the two that are compared, and the versions page by page.
func TestRailProfiles(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	looker := openReader(t, cell)
	for n := 2; n <= reader.VersionsMax+3; n++ {
		cell.ApplyProfile(celltest.Bank, fmt.Sprintf(`{"acceptance": "FINAL", "concurrency": %d}`, n))
	}
	const newest = reader.VersionsMax + 3
	for name, test := range map[string]struct {
		query         reader.ProfileQuery
		before, after int
		first, last   int
		more          bool
	}{
		"as it is":      {reader.ProfileQuery{}, newest - 1, newest, newest, 4, true},
		"two of them":   {reader.ProfileQuery{Before: 2, After: 7}, 2, 7, newest, 4, true},
		"up to one":     {reader.ProfileQuery{After: 7}, 6, 7, newest, 4, true},
		"the first":     {reader.ProfileQuery{After: 1}, 0, 1, newest, 4, true},
		"none such":     {reader.ProfileQuery{Before: 9000, After: 9001}, 0, 0, newest, 4, true},
		"the next page": {reader.ProfileQuery{OlderThan: 4}, newest - 1, newest, 3, 1, false},
	} {
		test.query.RailType = celltest.Bank
		got, err := looker.RailProfiles(t.Context(), test.query)
		if err != nil {
			t.Fatal(err)
		}
		if got.InForce.Version != newest || len(got.InForce.Profile) == 0 || got.InForce.Reason != "set by a test" {
			t.Errorf("%s: in force is %+v", name, got.InForce)
		}
		if got.Before.Version != test.before || got.After.Version != test.after || got.More != test.more {
			t.Errorf("%s: %d and %d, more %t", name, got.Before.Version, got.After.Version, got.More)
		}
		first, last := got.Versions[0], got.Versions[len(got.Versions)-1]
		if first.Version != test.first || last.Version != test.last || first.Profile != nil || first.AppliedAt.IsZero() {
			t.Errorf("%s: versions from %+v to %+v", name, first, last)
		}
	}
	if _, err := looker.RailProfiles(t.Context(), reader.ProfileQuery{RailType: "none"}); !errors.Is(err,
		outbox.ErrNotFound) {
		t.Errorf("no such rail: %v", err)
	}
	far := reader.ProfileQuery{RailType: celltest.Bank, After: 1 << 40}
	if _, err := looker.RailProfiles(t.Context(), far); !errors.Is(err, outbox.ErrUnanswerable) {
		t.Errorf("no such number: %v", err)
	}
}

// TestRailCodes: the codes of a rail with what they proved, among the rows of all rails.
func TestRailCodes(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.ApplyProfile("other", celltest.BankProfile)
	ingest, executor, looker := openIngest(t, cell, 3), openExecutor(t, cell), openReader(t, cell)
	got, err := looker.RailCodes(t.Context(), celltest.Bank)
	if err != nil || got.Looked != 0 || got.OfRail != 0 || len(got.Codes) != 0 || !got.Since.IsZero() {
		t.Fatalf("of an empty archive %+v, %v", got, err)
	}
	for n := range 3 {
		if _, err := ingest.Enqueue(t.Context(), order(n)); err != nil {
			t.Fatal(err)
		}
	}
	claims := claimAll(t, executor)
	answer(t, executor, claims[:2], payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	answer(t, executor, claims[2:], payment.ResultUnknown, payment.Outcome{RailCode: "ZZ1", CodeTable: "iso20022@1"})
	cell.Exec(`INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, rail_type, attempt_no, state,
		rail_code, outcome_unknown, provisional) VALUES (gen_random_uuid(), railhead.uuidv7(), 'other', 1, 'RETRYABLE', 'AM04', false, false)`)
	if got, err = looker.RailCodes(t.Context(), celltest.Bank); err != nil {
		t.Fatal(err)
	}
	if got.Looked != 4 || got.OfRail != 3 || len(got.Codes) != 2 || got.More || got.Since.IsZero() {
		t.Fatalf("codes %+v", got)
	}
	if most := got.Codes[0]; most.Code != "AC04" || most.Answers != 2 || most.Table != "iso20022@1" ||
		most.Result != "REFUSED_FINAL" || most.LastAt.Before(most.FirstAt) || most.FirstAt.IsZero() {
		t.Errorf("the most frequent is %+v", most)
	}
	if len(got.Ends) != 2 || got.Ends[0].Result != "REFUSED_FINAL" || got.Ends[0].Calls != 2 ||
		got.Ends[0].LastAt.IsZero() || got.Ends[1].Result != "UNKNOWN" || got.Ends[1].Calls != 1 {
		t.Errorf("calls ended as %+v", got.Ends)
	}
	if least := got.Codes[1]; least.Code != "ZZ1" || least.Answers != 1 || least.Result != "UNKNOWN" {
		t.Errorf("the other is %+v", least)
	}
}

// TestParticipants: they are listed in the order of their ids, page by page, each with its newest
// number, what waits of it, and its pause.
func TestParticipants(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, operator, looker := openIngest(t, cell, 1), openOperator(t, cell), openReader(t, cell)
	n := 0
	for participant, instructions := range map[string]int{"a": 1, "b": 2, "b1": 1, "B": 1, "c": 3} {
		for range instructions {
			in := order(n)
			in.ParticipantID = participant
			if _, err := ingest.Enqueue(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	if _, err := operator.PauseParticipant(t.Context(), "b", "as asked", time.Time{}); err != nil {
		t.Fatal(err)
	}
	list := func(filter reader.ParticipantFilter, next string, want ...string) reader.ParticipantList {
		t.Helper()
		got, err := looker.Participants(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, one := range got.Participants {
			ids = append(ids, one.ParticipantID)
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) || got.Next != next || got.PendingCapped {
			t.Errorf("%+v: %v, next %q, capped %t; want %v, %q", filter, ids, got.Next, got.PendingCapped, want, next)
		}
		return got
	}
	all := list(reader.ParticipantFilter{}, "", "B", "a", "b", "b1", "c")
	if b := all.Participants[2]; b.Sequence != 2 || b.Waiting != 2 || b.NewestAt.IsZero() || b.Pause == nil ||
		b.Pause.What != "participant b" || b.Pause.By != celltest.Operator || b.Pause.Reason != "as asked" {
		t.Errorf("b is %+v, paused %+v", b, b.Pause)
	}
	if c := all.Participants[4]; c.Sequence != 3 || c.Waiting != 3 || c.Pause != nil {
		t.Errorf("c is %+v", c)
	}
	list(reader.ParticipantFilter{Limit: 2}, "a", "B", "a")
	list(reader.ParticipantFilter{Limit: 2, After: "a"}, "b1", "b", "b1")
	list(reader.ParticipantFilter{Limit: 2, After: "b1"}, "", "c")
	list(reader.ParticipantFilter{Prefix: "b"}, "", "b", "b1")
	list(reader.ParticipantFilter{Prefix: "b", After: "b"}, "", "b1")
	list(reader.ParticipantFilter{Prefix: "b", Limit: 1}, "b", "b")
	list(reader.ParticipantFilter{Prefix: "%"}, "")
	many := reader.ParticipantFilter{Limit: reader.ParticipantsListed + 1}
	if _, err := looker.Participants(t.Context(), many); !errors.Is(err, outbox.ErrUnanswerable) {
		t.Errorf("a limit of %d: %v", many.Limit, err)
	}
}

// TestParticipant: its numbers with their gaps, what waits, what it enqueued by currency, its pause and
// its gate.
func TestParticipant(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, operator, looker := openIngest(t, cell, 1), openOperator(t, cell), openReader(t, cell)
	if _, err := looker.Participant(t.Context(), "p"); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("one that never enqueued: %v", err)
	}
	for n, payload := range []string{`{"amount": "10.5", "currency": "EUR"}`, `{"amount": "0.25", "currency": "EUR"}`,
		`{"amount": "700", "currency": "JPY"}`, `{"amount": "9.99", "currency": "EUR"}`} {
		in := order(n)
		in.ParticipantID, in.Payload = "p", []byte(payload)
		if _, err := ingest.Enqueue(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	got := participant(t, looker, "p")
	if got.Numbers != 4 || got.Lowest != 1 || got.Highest != 4 || got.Missing() != 0 || got.Waiting != 4 ||
		got.Due != 4 || got.OutcomeUnknown != 0 || got.OldestWaiting.IsZero() || got.Until.Before(got.Since) ||
		got.Pause != nil || got.Gate != nil || got.Everything != nil || got.VolumeCapped || got.PendingCapped {
		t.Errorf("p is %+v", got)
	}
	if fmt.Sprint(got.Volume) != "[{EUR 3 20.74} {JPY 1 700}]" {
		t.Errorf("the volume is %v", got.Volume)
	}
	// One is of last week, one is gone, and the registry has lost the number of one.
	cell.Exec(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER ALL;
		UPDATE railhead.payment_outbox_keys SET created_at = created_at - interval '7 days' WHERE sequence_id = 1;
		DELETE FROM railhead.payment_outbox_pending
		WHERE outbox_id = (SELECT outbox_id FROM railhead.payment_outbox_keys WHERE sequence_id = 2);
		UPDATE railhead.payment_outbox_pending SET outcome_unknown = true, next_attempt_at = now() + interval '1 hour'
		WHERE outbox_id = (SELECT outbox_id FROM railhead.payment_outbox_keys WHERE sequence_id = 4);
		DELETE FROM railhead.payment_outbox_keys WHERE sequence_id = 3`)
	if _, err := operator.PauseParticipant(t.Context(), "p", "as asked", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.PauseRail(t.Context(), "*", "a restore", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.CloseEnqueue(t.Context(), reader.Gate{Scope: reader.GateParticipant, Name: "p"}, "its limit",
		time.Time{}); err != nil {
		t.Fatal(err)
	}
	got = participant(t, looker, "p")
	if got.Numbers != 3 || got.Missing() != 1 || got.OutcomeUnknown != 1 || got.Waiting != 3 || got.Due != 2 {
		t.Errorf("p is %+v", got)
	}
	if fmt.Sprint(got.Volume) != "[{EUR 2 10.24}]" {
		t.Errorf("the volume is %v", got.Volume)
	}
	if got.Pause == nil || got.Pause.Reason != "as asked" || got.Gate == nil || got.Gate.Reason != "its limit" ||
		got.Everything == nil || got.Everything.Reason != "a restore" {
		t.Errorf("pause %+v, of everything %+v, gate %+v", got.Pause, got.Everything, got.Gate)
	}
}

func participant(t *testing.T, looker *reader.Reader, id string) reader.Participant {
	t.Helper()
	got, err := looker.Participant(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestNewestNumbers: of a participant with many instructions the newest are read, and the gaps among
// them are counted.
func TestNewestNumbers(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	looker := openReader(t, cell)
	cell.Exec(`INSERT INTO railhead.payment_outbox_keys (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key)
		SELECT railhead.uuidv7(), 'i' || n, 'k', 'p', n, sha256('x'), gen_random_uuid() FROM generate_series(1, 1500) n WHERE n NOT IN (2, 900)`)
	got := participant(t, looker, "p")
	if got.Numbers != reader.NumbersLooked || got.Lowest != 500 || got.Highest != 1500 || got.Missing() != 1 ||
		!got.VolumeCapped || len(got.Volume) != 1 || got.Volume[0] != (reader.Volume{Instructions: 1000}) {
		t.Errorf("p is %+v", got)
	}
}

// TestInstalled: the version of the schema is that of this build, and suspensions are listed with who
// ended them.
func TestInstalled(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	looker := openReader(t, cell)
	schema, suspensions, err := looker.Installed(t.Context())
	if err != nil || schema.Migration == 0 || schema.Migration != schema.OfBuild || schema.Serves > schema.Migration ||
		schema.Serves == 0 || len(suspensions) != 0 {
		t.Errorf("%+v, %+v, %v", schema, suspensions, err)
	}
	cell.Exec(`INSERT INTO railhead.payment_outbox_suspensions
		(opened_by, worker_id, cause, detail, system_identifier, timeline, server_started_at, known_until, accepted_at, accepted_by, reason)
		VALUES ('relayer', 'w1', 'NEW_SERVER', 'another server', 's', 1, now(), '-infinity', now(), 'amy', 'compared'),
			('relayer', 'w2', 'ROWS_MISSING', 'rows are gone', 's', 1, now(), now(), NULL, NULL, NULL)`)
	if _, suspensions, err = looker.Installed(t.Context()); err != nil || len(suspensions) != 2 {
		t.Fatalf("%+v, %v", suspensions, err)
	}
	for _, one := range suspensions {
		open := one.Cause == "ROWS_MISSING"
		if one.AcceptedAt.IsZero() != open || one.KnownUntil.IsZero() == open || (one.AcceptedBy == "amy") == open ||
			one.OpenedBy != "relayer" || one.Detail == "" || (one.Accepted == "compared") == open {
			t.Errorf("%+v", one)
		}
	}
}
