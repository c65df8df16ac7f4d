package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestDatabaseThatAnswered: a database that answered is not called one that did not, and no act is headed as if it were
// one on a payment.
func TestDatabaseThatAnswered(t *testing.T) {
	t.Parallel()
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{func(*reader.Timeline) {}}, &scriptedOperator{}, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	refused := &outbox.Fault{SQLState: outbox.StateNotAllowed, Message: "the suspension is another one"}
	for _, test := range []struct {
		err           error
		id            string
		says, says2   string
		many, without string
	}{
		{&pgconn.PgError{Code: "28P01"}, "x", "The database refuses the login of the console", "Nothing was done.",
			"the database refuses the login", "did not answer"},
		{&pgconn.PgError{Code: "28000"}, "x", "The database refuses the login of the console", "Nothing was done.",
			"the database refuses the login", "did not answer"},
		{outbox.ErrReadOnly, "x", "The database can&#39;t be written to", "Nothing was done.",
			"the database can't be written to", "did not answer"},
		{&pgconn.PgError{Code: "25006"}, "x", "The database can&#39;t be written to", "Nothing was done.",
			"the database can't be written to", "did not answer"},
		{refused, "", "This is refused", "the suspension is another one", "the suspension is another one", "of the payment"},
		{refused, "x", "The state of the payment does not allow this", "Nothing was done.", "the suspension", "did not answer"},
	} {
		failed := fmt.Errorf("acting: %w", test.err)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", nil)
		r.SetPathValue("id", test.id)
		w := httptest.NewRecorder()
		c.failed(w, r, failed)
		text := w.Body.String()
		if !strings.Contains(text, test.says) || !strings.Contains(text, test.says2) || strings.Contains(text, test.without) {
			t.Errorf("%v: %s", test.err, text)
		}
		if one, _ := outcomeOf(payment.ID{}, failed); !strings.Contains(one.Why, test.many) {
			t.Errorf("%v, of several: %+v", test.err, one)
		}
	}
}
