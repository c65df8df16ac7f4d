package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// RailCodes are how the calls of a rail ended, and its codes, in the newest rows of the archive.
type RailCodes struct {
	// Looked counts the rows that were read, of all rails: those that answer, repair or act, the
	// newest ones, at most CodesLooked. OfRail counts those of this rail.
	Looked, OfRail int64
	Since          time.Time // the oldest of the rows that were read; zero: there are none
	Codes          []RailCode
	More           bool // there are more codes than Codes has
	Ends           []CallEnd
}

// CallEnd is a way in which calls of a rail ended.
type CallEnd struct {
	Result    string
	ErrorCode string // empty: none
	Calls     int64
	LastAt    time.Time
	// P50 and P95 are percentiles of how long they took; zero: no such call left.
	P50, P95 time.Duration
}

// RailCode is a code of a rail with one result.
type RailCode struct {
	Code    string
	Table   string // the code table that classified it, with its edition, or profile
	Result  string
	Answers int64
	FirstAt time.Time
	LastAt  time.Time
}

// CodesLooked is the maximum of rows that RailCodes reads.
const CodesLooked = 10_000

// codesMax bounds the codes of a rail, with each result, that are returned.
const codesMax = 200

// RailCodes counts the codes of a rail, and how its calls ended, in the newest rows of the archive. It reads them by
// the index of the event stream.
func (r *Reader) RailCodes(ctx context.Context, railType string) (RailCodes, error) {
	codes := RailCodes{Codes: []RailCode{}, Ends: []CallEnd{}}
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["index_order"])
		batch.Queue(r.db.SQL["rail_codes"], railType, CodesLooked, codesMax).Query(store.Each(codes.scan))
	})
	if err != nil {
		return RailCodes{}, fmt.Errorf("reading the codes of rail %q: %w", store.Bound(railType, 64), err)
	}
	return codes, nil
}

func (c *RailCodes) scan(row pgx.CollectableRow) error {
	var kind, code, table, result pgtype.Text
	var answers, all pgtype.Int8
	var since, first, last pgtype.Timestamptz
	var took []*int32
	err := row.Scan(&c.Looked, &c.OfRail, &since, &kind, &code, &table, &result, &answers, &first, &last, &all, &took)
	c.Since = store.OrZero(since)
	switch kind.String {
	case "code":
		c.More = all.Int64 > codesMax
		c.Codes = append(c.Codes, RailCode{
			Code: code.String, Table: table.String, Result: result.String, Answers: answers.Int64,
			FirstAt: store.OrZero(first), LastAt: store.OrZero(last),
		})
	case "end":
		end := CallEnd{Result: result.String, ErrorCode: code.String, Calls: answers.Int64, LastAt: store.OrZero(last)}
		if len(took) == 2 && took[0] != nil && took[1] != nil {
			end.P50, end.P95 = time.Duration(*took[0])*time.Millisecond, time.Duration(*took[1])*time.Millisecond
		}
		c.Ends = append(c.Ends, end)
	}
	return err
}
