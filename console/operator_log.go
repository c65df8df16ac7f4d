package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// logLimit is the length of a page of the operator log.
const logLimit = 50

// logBody is the body of a page of the operator log, the newest act first.
type logBody struct {
	Acts  []logRow
	Query url.Values // the filter, as in the address
	Next  string     // the address of the next page; empty: this is the last one
	Never []string   // of the names of the filter, where no act fits it
}

// logRow is an act in the operator log.
type logRow struct {
	reader.LoggedAct
	Details string
}

// detailMax bounds the details of an act that a page shows, in characters.
const detailMax = 500

// operatorLog shows a page of the operator log, by the filter in the address.
func (c *Console) operatorLog(w http.ResponseWriter, r *http.Request, _ Person) {
	query := url.Values{}
	for _, name := range []string{"act", "person", "login", "subject", "before"} {
		if value := strings.TrimSpace(r.FormValue(name)); value != "" {
			query.Set(name, value)
		}
	}
	filter := reader.LogFilter{
		Act: query.Get("act"), Person: query.Get("person"), Actor: query.Get("login"), Subject: query.Get("subject"),
		Limit: logLimit,
	}
	if text := query.Get("before"); text != "" {
		var err error
		if filter.Before, err = payment.ParseID(text); err != nil {
			c.fail(w, r, problem{http.StatusBadRequest, "The filter can't be read",
				"The page begins at no act: go back to the first page."})
			return
		}
	}
	acts, more, err := c.reader.OperatorLog(r.Context(), filter)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := logBody{Query: query}
	if len(acts) == 0 {
		if body.Never, err = c.reader.NeverLogged(r.Context(), filter); err != nil {
			c.failed(w, r, err)
			return
		}
	}
	for _, act := range slices.Backward(acts) {
		row := logRow{LoggedAct: act, Details: explain.Bounded(explain.OneLine(string(act.Detail)), detailMax)}
		if row.Details == "{}" {
			row.Details = ""
		}
		body.Acts = append(body.Acts, row)
	}
	if more {
		next := url.Values{}
		for name := range query {
			next.Set(name, query.Get(name))
		}
		next.Set("before", acts[0].ActID.String())
		body.Next = "/audit/log?" + next.Encode()
	}
	c.show(w, r, "operator_log.html", page{Title: "Operator log", Body: body})
}
