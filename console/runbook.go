package console

import (
	"net/http"
	"regexp"

	"github.com/railhead-pay/railhead/alerts"
)

// alertName is the form of an alert's name, which is that of its runbook's file.
var alertName = regexp.MustCompile(`^Railhead[A-Za-z]{1,60}$`)

// runbookOf is the runbook of an alert, which is part of the binary; nil: there is no such alert.
func runbookOf(alert string) []byte {
	if !alertName.MatchString(alert) {
		return nil
	}
	text, err := alerts.Files.ReadFile("runbooks/" + alert + ".md")
	if err != nil {
		return nil
	}
	return text
}

// runbook shows the runbook of an alert.
func (c *Console) runbook(w http.ResponseWriter, r *http.Request, _ Person) {
	alert := r.PathValue("alert")
	text := runbookOf(alert)
	if text == nil {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such runbook", "Follow the link of a tile on the first page."})
		return
	}
	c.show(w, r, "runbook.html", page{Title: alert, Body: blocksOf(string(text))})
}
