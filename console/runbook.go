package console

import (
	"net/http"
	"regexp"

	"github.com/railhead-pay/railhead/alerts"
)

// alertName is the form of an alert's name, which is that of its runbook's file.
var alertName = regexp.MustCompile(`^Railhead[A-Za-z]{1,60}$`)

// runbook shows the runbook of an alert, which is part of the binary.
func (c *Console) runbook(w http.ResponseWriter, r *http.Request, _ Person) {
	alert := r.PathValue("alert")
	var text []byte
	if alertName.MatchString(alert) {
		text, _ = alerts.Files.ReadFile("runbooks/" + alert + ".md") // none: there is no such alert
	}
	if text == nil {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such runbook", "Follow the link of a tile on the first page."})
		return
	}
	c.show(w, r, "runbook.html", page{Title: alert, Body: string(text)})
}
