package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// listLimit is the length of a page of payments.
const listLimit = 50

// listBody is the body of a page of payments.
type listBody struct {
	reader.List
	Rows   []listRow
	Query  url.Values // the filter, as in the address
	States []string
	Rails  []string
	Window string
	Next   string // the address of the next page; empty: this is the last one
}

// listRow is a payment in a list.
type listRow struct {
	reader.Listed
	Tone explain.Tone
	Last string
	Code string
}

// filterNames are the fields of the filter in the address.
var filterNames = []string{
	"state", "rail", "participant", "code", "newer", "older", "currency", "from", "to", "before",
}

// list shows a page of payments, by the filter in the address.
func (c *Console) list(w http.ResponseWriter, r *http.Request, _ Person) {
	query := knownFields(r.URL.Query(), filterNames)
	filter, err := filterOf(query)
	if err != nil {
		c.fail(w, r, problem{http.StatusBadRequest, "The filter can't be read", err.Error()})
		return
	}
	list, err := c.reader.List(r.Context(), filter)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := listBody{
		List: list, Query: query, States: knownStates(), Rails: c.railNames(), Window: explain.Clock(list.Until),
	}
	if list.Until.Sub(list.Since) < 10*365*24*time.Hour {
		body.Window = explain.Clock(list.Since) + " to " + body.Window
	} else {
		body.Window = "before " + body.Window
	}
	for _, one := range list.Payments {
		last := one.LastState
		if one.OutcomeUnknown {
			last += ", outcome unknown"
		}
		body.Rows = append(body.Rows, listRow{
			one, explain.ToneOfState(one.State), last, explain.SaidCodes(one.ErrorCode, one.RailCode),
		})
	}
	if !list.Next.IsZero() {
		body.Next = "/payments?" + with(query, "before", list.Next.String()).Encode()
	}
	c.show(w, r, "payments.html", page{Title: "Payments", Body: body})
}

func knownStates() []string {
	states := []string{"PENDING", "CONFLICT"}
	for _, state := range payment.States() {
		states = append(states, string(state))
	}
	return states
}

// filterOf reads the filter, and returns every fault of it at once.
func filterOf(query url.Values) (reader.ListFilter, error) {
	filter := reader.ListFilter{
		State: strings.ToUpper(query.Get("state")), RailType: query.Get("rail"), ParticipantID: query.Get("participant"),
		Code: query.Get("code"), Currency: strings.ToUpper(query.Get("currency")), Limit: listLimit,
	}
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if filter.State != "" && !slices.Contains(knownStates(), filter.State) {
		refuse("there is no such state; use one of %s", strings.Join(knownStates(), ", "))
	}
	for name, into := range map[string]*time.Duration{"newer": &filter.NewerThan, "older": &filter.OlderThan} {
		if text := query.Get(name); text != "" {
			span, err := time.ParseDuration(text)
			if *into = span; err != nil || span < 0 {
				refuse("%s than is a span such as 90m or 24h", name)
			}
		}
	}
	if text := query.Get("before"); text != "" {
		var err error
		if filter.Before, err = payment.ParseID(text); err != nil {
			refuse("the page begins at no outbox id: go back to the first page")
		}
	}
	if filter.Currency == "" && (query.Get("from") != "" || query.Get("to") != "") {
		refuse("amounts need a currency: those of two currencies don't compare")
	} else if filter.Currency != "" {
		if _, err := payment.CurrencyOf(filter.Currency); err != nil {
			refuse("there is no such currency; use a code such as EUR")
			return filter, errors.Join(faults...)
		}
	}
	for name, into := range map[string]*int64{"from": &filter.AmountFrom, "to": &filter.AmountTo} {
		if text := query.Get(name); text != "" && filter.Currency != "" {
			amount, err := payment.ParseAmount(text, filter.Currency)
			if *into = amount.Minor; err != nil {
				refuse("the amount %s is a decimal number such as 10.50, with the digits of the currency", name)
			}
		}
	}
	return filter, errors.Join(faults...)
}
