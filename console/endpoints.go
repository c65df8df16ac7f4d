package console

import (
	"net/http"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// endpointsMax bounds the endpoints that are shown.
const endpointsMax = 1000

// endpointsBody is the body of the page of endpoints.
type endpointsBody struct {
	Rows   []endpointRow
	More   bool // there are more endpoints
	Held   string
	IsHeld bool
	MayAct bool
	Did    string // what was just done; empty: nothing
}

// endpointRow is an endpoint with its state in words.
type endpointRow struct {
	outbox.ListedEndpoint
	RedeliverAt, DiscardAt string // the addresses of its acts
	Seen                   string // what is shown of it, for their forms

	Word  string // its id as a word of a shell
	State string
	Tone  explain.Tone
	Lag   string // the age of its oldest event that waits; empty: none does, and what is after its place is not counted
}

// endpoints shows the endpoints to which events are delivered.
func (c *Console) endpoints(w http.ResponseWriter, r *http.Request, person Person) {
	seen := c.stateFor(w, r)
	if seen == nil {
		return
	}
	all, err := c.reader.Endpoints(r.Context())
	var held reader.HeldEvents
	if err == nil {
		held, err = c.reader.HeldEvents(r.Context())
	}
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := endpointsBody{
		More: len(all) > endpointsMax, Held: explain.HeldEvents(held), IsHeld: !held.Since.IsZero() || !held.Ahead.IsZero(),
		MayAct: c.mayAct(person), Did: c.justDone(r),
	}
	now := seen.Clock()
	for _, one := range all[:min(len(all), endpointsMax)] {
		row := endpointRow{
			ListedEndpoint: one, RedeliverAt: actAddress(ofEndpoints, one.Endpoint, "redeliver"),
			DiscardAt: actAddress(ofEndpoints, one.Endpoint, "discard"), Word: shellWord(one.Endpoint),
			Seen: shownEndpoint(one),
		}
		row.State, row.Tone = explain.EndpointState(one, now)
		if !one.OldestWaiting.IsZero() {
			row.Lag = explain.Span(max(0, now.Sub(one.OldestWaiting)))
		}
		body.Rows = append(body.Rows, row)
	}
	c.show(w, r, "endpoints.html", page{Title: "Endpoints", Body: body})
}
