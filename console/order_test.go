package console_test

import (
	"net/url"
	"testing"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestBlockedInOrder: the pages of rail and participant name the payment that others wait behind, and its own
// page has the act that lets them go on.
func TestBlockedInOrder(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	id := refuse(t, cell, "AC04")[0]
	cell.ApplyProfile(celltest.Bank, `{"acceptance": "FINAL", "order": "STRICT", "order_participants": {"p9": "NONE"}}`)
	advance := `SELECT FROM railhead.advance_order_lines('{}', '{}', '{bank}', '{infinity}', '{""}', 500, NULL, 500)`
	cell.Exec(advance)
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	s.want(s.do(client, "GET", "/rails/bank", nil), 200, "participants blocked in order", id.String(),
		"/runbooks/RailheadOrderBlocked", "order_on_bad_end", "nothing until its dead letter", "order_participants")
	s.want(s.do(client, "GET", "/participant?id=p0", nil), 200, "In order", id.String(), "blocked since", "FAILED")
	path := "/payments/" + id.String()
	s.want(s.do(client, "GET", path, nil), 200, "<summary>skip</summary>", "waits for that, or for: railhead payment skip")
	s.want(s.do(client, "POST", path+"/skip", s.form(client, id, url.Values{"reason": {"they agreed"}})), 303)
	s.want(s.do(client, "GET", path, nil), 200, "Passed in order: sequence 1.", "they agreed")
	cell.Exec(advance)
	s.want(s.do(client, "GET", path, nil), 200, "<b>skip</b>: not now, it is not the head of a line")
	s.want(s.do(client, "POST", path+"/skip", s.form(client, id, url.Values{"reason": {"once more"}})), 409,
		"the instruction was skipped already, as it stands")
}
