package store

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// outcomeColumn is one column of an outcome that is recorded. Its name and type are
// those of the composite type outbox_outcome in the schema.
type outcomeColumn struct {
	name, SQLType string
	value         func(*payment.Outcome) any
	values        func([]*payment.Outcome) any // an array with an element for each outcome, in their order
}

func column[T any](name, sqlType string, of func(*payment.Outcome) T) outcomeColumn {
	return outcomeColumn{
		name: name, SQLType: sqlType,
		value: func(o *payment.Outcome) any { return of(o) },
		values: func(outcomes []*payment.Outcome) any {
			array := make(array[T], len(outcomes))
			for i, o := range outcomes {
				array[i] = of(o)
			}
			return array
		},
	}
}

// array is an array argument that pgx encodes by the addresses of its elements. Of a
// plain slice it would copy each element, by reflection.
type array[T any] []T

func (a array[T]) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(a)), LowerBound: 1}}
}

func (a array[T]) Index(i int) any { return &a[i] }

func (a array[T]) IndexType() any { return new(T) }

// OutcomeColumns are columns of an outcome. They are the single definition of what is
// recorded: the statements record and record_done, their arguments, and the JSON of
// record_late are made from them.
type OutcomeColumns []outcomeColumn

// claimNoColumn is the number of the claim that the outcome answers; null: it answers no
// claim. It becomes answers_attempt_no of the row.
var claimNoColumn = column("claim_no", "integer", func(o *payment.Outcome) pgtype.Int4 {
	return pgtype.Int4{Int32: int32(o.Claim.AttemptNo), Valid: o.Claim.AttemptNo > 0}
})

// answerColumns are the columns that the row of the archive has under the same names.
var answerColumns = OutcomeColumns{
	column("attempt_id", "uuid", func(o *payment.Outcome) pgtype.UUID { return UUID(o.AttemptID) }),
	column("outbox_id", "uuid", func(o *payment.Outcome) pgtype.UUID { return UUID(o.Claim.OutboxID) }),
	column("state", "text", func(o *payment.Outcome) string { return string(o.Decision.State) }),
	// It is never null for an answer to a claim: it makes a send that a restore lost count.
	column("claimed_at", "timestamptz", func(o *payment.Outcome) pgtype.Timestamptz {
		return pgtype.Timestamptz{Time: o.Claim.ClaimedAt, Valid: o.Claim.AttemptNo > 0}
	}),
	column("result", "text", func(o *payment.Outcome) pgtype.Text { return Text(string(o.Result)) }),
	column("rail_reference", "text", func(o *payment.Outcome) pgtype.Text { return Text(Bound(o.RailReference, 256)) }),
	column("rail_code", "text", func(o *payment.Outcome) pgtype.Text { return Text(Bound(o.RailCode, 100)) }),
	column("code_table", "text", func(o *payment.Outcome) pgtype.Text { return Text(o.CodeTable) }),
	column("error_code", "text", func(o *payment.Outcome) pgtype.Text { return Text(Bound(o.Decision.ErrorCode, 100)) }),
	column("error_message", "text", func(o *payment.Outcome) pgtype.Text {
		return Text(Bound(o.ErrorMessage, payment.MaxErrorMessage))
	}),
	column("latency_ms", "integer", func(o *payment.Outcome) pgtype.Int4 { return latency(o.Latency) }),
	column("worker_id", "text", func(o *payment.Outcome) pgtype.Text { return Text(o.WorkerID) }),
	column("profile_version", "integer", func(o *payment.Outcome) pgtype.Int4 { return version(o.ProfileVersion) }),
	column("render_version", "text", func(o *payment.Outcome) pgtype.Text { return Text(o.RenderVersion) }),
	column("outcome_unknown", "boolean", func(o *payment.Outcome) bool { return o.Decision.OutcomeUnknown }),
	column("provisional", "boolean", func(o *payment.Outcome) bool {
		return o.Decision.Provisional && o.Decision.OutcomeUnknown
	}),
}

// followColumns are the consequences of an outcome: a row PARKED, a dead letter, and a row
// of pending.
var followColumns = OutcomeColumns{
	column("park_attempt_id", "uuid", func(o *payment.Outcome) pgtype.UUID {
		if !o.Decision.Park {
			return pgtype.UUID{}
		}
		return UUID(o.ParkAttemptID)
	}),
	column("dead_reason", "text", func(o *payment.Outcome) pgtype.Text { return Text(string(o.Decision.Reason)) }),
	column("next_action", "text", func(o *payment.Outcome) pgtype.Text {
		if !o.Decision.Requeue {
			return pgtype.Text{}
		}
		return Text(string(o.Decision.NextAction))
	}),
	column("delay_ms", "bigint", func(o *payment.Outcome) pgtype.Int8 {
		return pgtype.Int8{Int64: o.Decision.Delay.Milliseconds(), Valid: o.Decision.Requeue}
	}),
	column("counts_send", "boolean", func(o *payment.Outcome) bool { return o.Decision.CountsSend }),
	column("send_count", "integer", func(o *payment.Outcome) int32 { return int32(o.Decision.SendCount) }),
	column("inquiry_count", "integer", func(o *payment.Outcome) int32 { return int32(o.Decision.InquiryCount) }),
}

// railTypeColumn is only for the slow path, which checks it for callbacks.
var railTypeColumn = column("rail_type", "text", func(o *payment.Outcome) pgtype.Text { return Text(o.Claim.RailType) })

// LateColumns are all columns of an outcome, the fields for record_late_outcome.
var LateColumns = slices.Concat(OutcomeColumns{claimNoColumn, railTypeColumn}, answerColumns, followColumns)

// Recorded are the columns of each statement that records outcomes, by its name.
var Recorded = map[string]OutcomeColumns{
	"record":      slices.Concat(OutcomeColumns{claimNoColumn}, answerColumns, followColumns),
	"record_done": slices.Concat(OutcomeColumns{claimNoColumn}, answerColumns),
}

// answerText matches the placeholder for the columns of the archive's row, and with an
// alias, as in {answer o}, for their values.
var answerText = regexp.MustCompile(`\{answer(?: ([a-z]+))?\}`)

// in replaces the placeholders of a statement: {outcomes} is a table of the parameters
// from $2 on, and {answer} the list of the columns of the archive.
func (columns OutcomeColumns) in(statement string) string {
	arrays, names := make([]string, len(columns)), make([]string, len(columns))
	for n, c := range columns {
		arrays[n], names[n] = fmt.Sprintf("$%d::%s[]", n+2, c.SQLType), c.name
	}
	outcomes := "unnest(" + strings.Join(arrays, ", ") + ") AS t(" + strings.Join(names, ", ") + ")"
	return answerText.ReplaceAllStringFunc(strings.ReplaceAll(statement, "{outcomes}", outcomes),
		func(found string) string {
			alias := answerText.FindStringSubmatch(found)[1]
			answer := make([]string, len(answerColumns))
			for n, c := range answerColumns {
				switch {
				case alias == "":
					answer[n] = c.name
				case c.name == "state":
					answer[n] = alias + ".state::{cell}.outbox_attempt_state"
				default:
					answer[n] = alias + "." + c.name
				}
			}
			return strings.Join(answer, ", ")
		})
}

// Arguments returns the outcomes as the array arguments of record and record_done, from
// $2 on.
func (columns OutcomeColumns) Arguments(outcomes []*payment.Outcome) []any {
	arguments := make([]any, len(columns))
	for n, c := range columns {
		arguments[n] = c.values(outcomes)
	}
	return arguments
}

// Fields returns one outcome as the JSON object for record_late_outcome.
func (columns OutcomeColumns) Fields(o *payment.Outcome) map[string]any {
	fields := make(map[string]any, len(columns))
	for _, c := range columns {
		fields[c.name] = c.value(o)
	}
	return fields
}

// latency returns null for 0, and the column's maximum for a longer one.
func latency(d time.Duration) pgtype.Int4 {
	return pgtype.Int4{Int32: int32(min(d.Milliseconds(), 1<<31-1)), Valid: d > 0}
}

func version(v int) pgtype.Int4 { return pgtype.Int4{Int32: int32(v), Valid: v > 0} }
