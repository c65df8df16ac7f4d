package store

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// UUID returns an id as an argument; null for the zero id.
func UUID(id payment.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// UUIDs returns ids as one array argument.
func UUIDs(ids []payment.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = UUID(id)
	}
	return out
}

// Text returns a text as an argument; null for an empty text.
func Text(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// Bound cuts a text to at most limit bytes, at the boundary of a character, and replaces
// or removes bytes that PostgreSQL's text can't store.
func Bound(s string, limit int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	for len(s) > limit {
		_, size := utf8.DecodeLastRuneInString(s[:min(len(s), limit+utf8.UTFMax)])
		s = s[:min(len(s), limit+utf8.UTFMax)-size]
	}
	return s
}

// OrZero returns a time that was read; zero for null and for infinity.
func OrZero(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// ScanID reads a row with one column, an id.
func ScanID(row pgx.CollectableRow) (payment.ID, error) {
	var id pgtype.UUID
	err := row.Scan(&id)
	return payment.ID(id.Bytes), err
}

// Timestamp returns a time as an argument; null for the zero time.
func Timestamp(at time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: at, Valid: !at.IsZero()}
}

// Each returns a function that calls scan with every row.
func Each(scan func(pgx.CollectableRow) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// Collect returns a function that reads all rows into a list.
func Collect[T any](into *[]T, scan pgx.RowToFunc[T]) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, scan)
		*into = all
		return err
	}
}

// ArrayText returns a list as the text of a text[]; null for nil.
func ArrayText[T ~string](list []T) pgtype.Text {
	if list == nil {
		return pgtype.Text{}
	}
	text := []byte{'{'}
	for n, one := range list {
		if n > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		for i := range len(one) {
			if one[i] == '"' || one[i] == '\\' {
				text = append(text, '\\')
			}
			text = append(text, one[i])
		}
		text = append(text, '"')
	}
	return pgtype.Text{String: string(append(text, '}')), Valid: true}
}
