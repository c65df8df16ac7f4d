package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// paymentBody is the body of the page of one payment.
type paymentBody struct {
	Line    reader.Timeline
	Money   explain.Fact
	Next    string
	Due     time.Time // zero: nothing is due
	DueInMS int64     // until Due by the database's clock, when the page was made
	Facts   []explain.Fact
	Remedy  string
	Acts    []explain.Act
	MayAct  bool
	Story   []storyRow
	Payload string // without its values
	Cell    string // for the statement that shows the same
	Did     string // the act that was just done; empty: none
	Seen    string // what the forms of acts are about
	Trace   string // the address of the trace of its enqueue; empty: none
	// ExpiresSoon says that it is pending and expires within 15 minutes, or has expired.
	ExpiresSoon bool
	// Deliveries are the lines about each endpoint.
	Deliveries []explain.Fact
}

// expirySoon is from when on the expiry of a payment is an alarm, as in the alerts.
const expirySoon = 15 * time.Minute

// storyRow is a line of the history.
type storyRow struct {
	explain.Event
	State, Result, Code, Latency, Reference, Note string
	Tone                                          explain.Tone
}

// search leads to the payment with an id, and lists them if several have it.
func (c *Console) search(w http.ResponseWriter, r *http.Request, _ Person) {
	reference := strings.TrimSpace(r.FormValue("id"))
	if reference == "" {
		c.redirect(w, r, "/payments")
		return
	}
	found, err := c.reader.Find(r.Context(), reference)
	switch {
	case err != nil:
		c.failed(w, r, err)
	case len(found) == 1 && !found[0].Mistakable(reference):
		c.redirect(w, r, "/payments/"+found[0].OutboxID.String())
	default:
		c.show(w, r, "found.html", page{Title: "Search", Body: found})
	}
}

// payment shows all that is known about one payment.
func (c *Console) payment(w http.ResponseWriter, r *http.Request, person Person) {
	id, err := payment.ParseID(r.PathValue("id"))
	if err != nil { // it may be another id of it
		c.redirect(w, r, "/search?"+url.Values{"id": {r.PathValue("id")}}.Encode())
		return
	}
	line, err := c.reader.Timeline(r.Context(), id)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	deliveries, err := c.reader.Deliveries(r.Context(), id)
	body := c.paymentBody(line, deliveries)
	if err != nil { // what is known about the money is no less true
		c.log.WarnContext(r.Context(), "the deliveries of a payment were not read", "error", err)
		body.Deliveries = []explain.Fact{{Name: "endpoints", Text: "they could not be read: reload", Tone: explain.Warn}}
	}
	form, err := c.reader.PayloadForm(r.Context(), id)
	body.Payload = redacted(form)
	if err != nil {
		c.log.WarnContext(r.Context(), "the form of a payload was not read", "error", err)
		body.Payload = "it could not be read: reload"
	}
	body.MayAct = c.operator != nil && person.May()
	body.Did = c.justDone(r)
	c.show(w, r, "payment.html", page{Title: "Payment " + line.InstructionID, Body: body})
}

func (c *Console) paymentBody(line reader.Timeline, deliveries []reader.Delivery) paymentBody {
	body := paymentBody{
		Line: line, Next: explain.NextStep(line), Acts: explain.Acts(line), Story: storyOf(line, deliveries),
		Cell: c.cell.Schema, Seen: seenLast(line),
	}
	if caller := tracing.CallerOf(line.TraceParent, ""); caller.IsValid() && c.config.TraceURL != "" {
		body.Trace = traceLink(c.config.TraceURL, caller.TraceID().String())
	}
	for _, delivery := range deliveries {
		body.Deliveries = append(body.Deliveries, explain.DeliveryLines(delivery)...)
	}
	for _, fact := range explain.Head(line) {
		switch fact.Name {
		case "money":
			body.Money = fact
			body.Money.Text = strings.TrimPrefix(fact.Text, ": ")
		case "next": // it stands above
		default:
			body.Facts = append(body.Facts, fact)
		}
	}
	if p := line.Pending; p != nil && p.DueInMS > 0 && !p.Quarantine && p.Pause == nil {
		body.Due, body.DueInMS = p.NextAttemptAt, p.DueInMS
	}
	body.ExpiresSoon = line.Pending != nil && !line.ExpiresAt.IsZero() && line.ExpiresAt.Sub(line.Now) < expirySoon
	if line.DeadLetter.Open() {
		body.Remedy = explain.Remedy(line)
	}
	return body
}

// traceLink is the address of a trace; empty: the template is none of an address.
func traceLink(template, traceID string) string {
	const place = "{trace_id}"
	if !strings.Contains(template, place) {
		return ""
	}
	link := strings.ReplaceAll(template, place, traceID)
	at, err := url.Parse(link)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || strings.Contains(at.Host, traceID) {
		return ""
	}
	return link
}

func storyOf(line reader.Timeline, deliveries []reader.Delivery) []storyRow {
	var rows []storyRow
	for _, event := range explain.WithDeliveries(explain.EventsOf(line), deliveries) {
		row := storyRow{Event: event, Note: explain.Printable(event.Note)}
		if a := event.Row; a != nil {
			row.State, row.Tone, row.Result = string(a.State), explain.ToneOfState(string(a.State)), a.Result
			row.Code, row.Reference = explain.SaidCodes(a.ErrorCode, a.RailCode), a.RailReference
			if a.LatencyMS != nil {
				row.Latency = explain.Span(explain.Millis(int64(*a.LatencyMS)))
			}
		}
		rows = append(rows, row)
	}
	return rows
}
