package railconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
)

// unkept returns what a profile states and the words, codes and times of the rail can never bring about, each with the
// path of its field first.
func (c *RailConfig) unkept(profile rails.Profile) []error {
	table, err := profile.Codes.BodyTable()
	if err != nil {
		return nil // which Faults returns
	}
	all := neverAnswered(profile.Codes)
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	asked := profile.Inquiry
	decided := asked.Max > 0 && asked.NotFound == payment.NotFoundNotExecuted
	if age := max(asked.NotFoundAge, asked.NotBefore); decided && profile.ResendOnUnknown == payment.ResendSameKey &&
		!profile.MayResend(time.Duration(age)) {
		refuse("profile.key_window is %s, and \"no such payment\" counts no earlier than %s after the send: by then the "+
			"rail need not know the key any more, so that nothing is ever sent again; ask and believe it earlier, or say "+
			"resend_on_unknown NEVER", profile.KeyWindow, age)
	}
	reported := c.Callback != nil && proves(c.Callback.Statuses, nil, table)[payment.ResultExecuted]
	if profile.Acceptance != payment.AcceptanceFinal && asked.Max == 0 && c.Callback != nil && !reported {
		refuse("callback.statuses has no word for EXECUTED, and the rail can't be asked: a payment that was accepted for " +
			"now would never be known to be executed")
	}
	if c.Adapter != AdapterHTTP || c.HTTP == nil {
		return all
	}
	if c.acceptsNothing(table) && !c.finds(table)[payment.ResultExecuted] {
		refuse("http.send.response.statuses has no word of class OK or P, and code table %s lists none, and no inquiry "+
			"finds that a payment was made: no send would ever be accepted", table.Name())
	}
	if strings.ContainsAny(c.HTTP.BaseURL, "{}") {
		refuse("http.base_url has a brace: nothing is filled in there, put it into the paths")
	}
	if c.HTTP.Inquiry == nil {
		return all
	}
	found := c.finds(table)
	if decided && !found[payment.ResultNotFound] {
		refuse("profile.inquiry.not_found is NOT_EXECUTED but http.inquiry.response.statuses has no word for NOT_FOUND, and "+
			"code table %s lists none: the rail would never be understood to say it", table.Name())
	}
	if !found[payment.ResultExecuted] && !reported {
		refuse("http.inquiry.response.statuses has no word for EXECUTED, and code table %s lists none: no inquiry would "+
			"ever find that a payment was made", table.Name())
	}
	return all
}

// Notes returns what a rail's file states without an effect, or with less of one than may be meant. It is no fault.
func (c *RailConfig) Notes(profile rails.Profile) []error {
	var all []error
	if profile.Acceptance == payment.AcceptanceFinal && profile.CallbackDeadline > 0 {
		all = append(all, errors.New("profile.callback_deadline has no effect on payments that are sent from now on: "+
			"acceptance is FINAL, so that an accepted payment waits for no callback"))
	}
	if profile.ResendOnUnknown == payment.ResendSameKey && profile.Inquiry.Max > 0 &&
		profile.Inquiry.NotFound == payment.NotFoundInconclusive {
		all = append(all, errors.New("profile.resend_on_unknown has no effect: a rail that can be asked is sent an unknown "+
			"payment again only after \"no such payment\", which inquiry.not_found INCONCLUSIVE does not believe"))
	}
	if c.Adapter != AdapterHTTP || c.HTTP == nil {
		return all
	}
	table, err := profile.Codes.BodyTable()
	if err != nil {
		return all
	}
	accepted := accepting(c.HTTP.Send.Response.Statuses, table)
	if profile.Acceptance == payment.AcceptanceFinal && c.HTTP.Send.Response.Status != "" && len(accepted) == 1 &&
		accepted[codes.InProgress] {
		all = append(all, errors.New("http.send.response.statuses has words of class P alone, which prove nothing where "+
			"acceptance is FINAL: every send would be UNKNOWN"))
	}
	if c.acceptsNothing(table) && c.finds(table)[payment.ResultExecuted] {
		all = append(all, fmt.Errorf("http.send.response.statuses has no word of class OK or P, and code table %s lists "+
			"none: every payment that was made waits for an inquiry", table.Name()))
	}
	if send := c.HTTP.Send.Response; send.Code != "" && send.Status == "" {
		all = append(all, errors.New("http.send.response has a code and no status: an acceptance whose code is empty is "+
			"UNKNOWN then; read a word, or leave out the code if the HTTP status says all"))
	}
	if asks := c.HTTP.Inquiry; asks != nil && asks.Response.Echo == "" {
		if path, query, _ := strings.Cut(asks.Path, "?"); strings.Contains(query, "{") && !strings.Contains(path, "{") &&
			len(asks.Body) == 0 {
			all = append(all, errors.New("http.inquiry.path names the payment in its query alone, and no echo is read: a bank "+
				"that ignores the query would answer about another payment; give http.inquiry.response.echo if it can"))
		}
	}
	return all
}

// neverAnswered returns the codes of a profile that no answer is read as.
func neverAnswered(c rails.Codes) []error {
	var all []error
	for _, code := range slices.Sorted(maps.Keys(c.Overrides)) {
		if code == codes.Unusable || strings.TrimSpace(code) == "" || strings.ContainsFunc(code, unicode.IsControl) {
			all = append(all, fmt.Errorf("profile.codes.overrides has %q, which no answer is read as", code))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(c.HTTP)) {
		if len(code) != 3 || code[0] < '2' || strings.Trim(code, "0123456789") != "" {
			all = append(all, fmt.Errorf("profile.codes.http has %q, which is no status code of an answer, 200 to 999", code))
		}
	}
	return all
}

// accepting returns which of the classes OK and P an answer to a send can have.
func accepting(words map[string]codes.Class, table *codes.Table) map[codes.Class]bool {
	can := make(map[codes.Class]bool)
	for _, class := range words {
		can[class] = true
	}
	for entry := range table.All() { // a word that is not listed is looked up, and a code is
		can[entry.Class] = true
	}
	maps.DeleteFunc(can, func(class codes.Class, _ bool) bool { return !class.Accepts() })
	return can
}

// acceptsNothing reports whether words are read of an answer to a send, and neither they nor a code accept it.
func (c *RailConfig) acceptsNothing(table *codes.Table) bool {
	send := c.HTTP.Send.Response
	return send.Status != "" && len(accepting(send.Statuses, table)) == 0
}

// finds returns what an inquiry can prove.
func (c *RailConfig) finds(table *codes.Table) map[payment.Result]bool {
	if c.HTTP.Inquiry == nil {
		return nil
	}
	return proves(c.HTTP.Inquiry.Response.Statuses, table, table)
}

// proves returns what words can prove, by themselves, by the table of other words, nil if those prove nothing, and by
// that of codes.
func proves(words map[string]payment.Result, others, byCode *codes.Table) map[payment.Result]bool {
	can := make(map[payment.Result]bool)
	looked := []*codes.Table{others}
	for _, result := range words {
		can[result] = true
		if result == codes.ReportedByCode {
			looked = append(looked, byCode)
		}
	}
	for _, table := range looked {
		if table == nil {
			continue
		}
		for entry := range table.All() {
			result, _ := table.Classify(entry.Code, codes.Context{Inquiry: true})
			can[result] = true
		}
	}
	return can
}
