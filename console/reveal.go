package console

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/railhead-pay/railhead/payment"
)

// revealedBody is the page with a payload, which is shown once.
type revealedBody struct {
	OutboxID         payment.ID
	ActID            payment.ID
	Payload, Headers string
}

// reveal shows the payload of a payment to a person with the role operate. The operator log has a row
// of it before the database returns the payload. The answer is that of the form: no address leads to
// it, and nothing keeps it.
func (c *Console) reveal(w http.ResponseWriter, r *http.Request, person Person) {
	id, err := payment.ParseID(r.PathValue("id"))
	if err != nil {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such payment", "Nothing was revealed. Search for it."})
		return
	}
	reason, ok := c.reasonOf(w, r)
	if !ok {
		return
	}
	found, err := c.operator.RevealPayload(r.Context(), id, reason)
	c.log.InfoContext(r.Context(), "act", "act", "reveal", "outbox_id", id.String(), "person", person.Name,
		"outcome", wordOf(err))
	if err != nil && found.ActID != (payment.ID{}) {
		c.log.WarnContext(r.Context(), "a payload was not read", "outbox_id", id.String(), "error", err)
		c.fail(w, r, problem{http.StatusConflict, "The payload is not shown",
			"The operator log has your act " + found.ActID.String() + ", and the payload could not be read after it. No row " +
				"may have it any more: the payment's page shows what is there. Else reveal it again."})
		return
	}
	if err != nil {
		c.failed(w, r, err)
		return
	}
	c.show(w, r, "revealed.html", page{Title: "Payload", Body: revealedBody{
		OutboxID: id, ActID: found.ActID, Payload: indented(found.Payload), Headers: indented(found.Headers),
	}})
}

// indented is a JSON document with a line for each value.
func indented(document json.RawMessage) string {
	var text bytes.Buffer
	if err := json.Indent(&text, document, "", "  "); err != nil {
		return string(document)
	}
	return text.String()
}
