package store

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/payment"
)

// TestOutcomeColumns holds the columns of outcomes to the composite type that the
// slow path takes, name by name and type by type, and the answer's to the archive.
func TestOutcomeColumns(t *testing.T) {
	t.Parallel()
	schema, err := migrations.Schema(migrations.DefaultCell)
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, c := range LateColumns {
		given = append(given, typed(c))
	}
	if wanted := columnsOf(schema, "composite type outbox_outcome"); !slices.Equal(slices.Sorted(slices.Values(given)),
		wanted) {
		t.Errorf("the columns of outcomes are\n%s\nand outbox_outcome has\n%s", strings.Join(given, "\n"),
			strings.Join(wanted, "\n"))
	}
	archive := columnsOf(schema, "partitioned table payment_outbox_attempts")
	for _, c := range answerColumns {
		if c.name != "state" && !slices.ContainsFunc(archive,
			func(there string) bool { return strings.HasPrefix(there, typed(c)) }) {
			t.Errorf("the archive has no column %s", typed(c))
		}
	}
}

func typed(c outcomeColumn) string {
	return c.name + " " + strings.Replace(c.SQLType, "timestamptz", "timestamp with time zone", 1)
}

// columnsOf gives the columns of one object of the schema's text in alphabetical
// order, without collations.
func columnsOf(schema, object string) []string {
	var columns []string
	within := false
	for line := range strings.Lines(schema) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, " ") {
			within = line == object || strings.HasPrefix(line, object+" ")
		}
		if name, ok := strings.CutPrefix(line, "  column "); ok && within {
			columns = append(columns, strings.ReplaceAll(name, ` collate "C"`, ""))
		}
	}
	slices.Sort(columns)
	return columns
}

// TestOutcomeColumnsAgree has both forms of every column say the same: the element
// of an array that a statement takes, and the field that the slow path takes.
func TestOutcomeColumnsAgree(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 29, 1, 59, 59, 123456000, time.UTC)
	full := payment.Outcome{
		AttemptID: payment.ID{1}, ParkAttemptID: payment.ID{2}, Result: payment.ResultUnknown,
		Claim: payment.Claim{OutboxID: payment.ID{3}, AttemptNo: 7, ClaimedAt: at, RailType: "bank"},
		Decision: payment.Decision{State: payment.Unknown, Park: true, Requeue: true, Reason: payment.DeadFailed,
			NextAction: payment.ActionSend, Delay: time.Minute, ErrorCode: "code", OutcomeUnknown: true, Provisional: true,
			CountsSend: true, SendCount: 2, InquiryCount: 3},
		RailReference: "ref", RailCode: "AC01", CodeTable: "table/1", ErrorMessage: "message", Latency: time.Second,
		WorkerID: "worker", ProfileVersion: 4, RenderVersion: "render/1",
	}
	outcomes := []*payment.Outcome{{}, &full}
	nulls := 0
	for _, c := range LateColumns {
		array, err := json.Marshal(c.values(outcomes))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fields, err := json.Marshal([]any{c.value(outcomes[0]), c.value(outcomes[1])})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if string(array) != string(fields) {
			t.Errorf("%s: the array is %s, the fields are %s", c.name, array, fields)
		}
		switch empty := strings.TrimPrefix(strings.Split(string(array), ",")[0], "["); empty {
		case "null":
			nulls++
		case `""`, "false", "0":
		default:
			t.Errorf("%s of nothing is %s", c.name, empty)
		}
		if strings.HasSuffix(string(array), ",null]") {
			t.Errorf("%s is lost: %s", c.name, array)
		}
	}
	if nulls != 19 {
		t.Errorf("%d columns of nothing are null; all but state, booleans and counters are", nulls)
	}
}
