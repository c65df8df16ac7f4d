package httpjson

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// Carries returns a joined error of what the requests do not carry although the profile relies on it, and of what in
// them two payments may share although it is to tell one from the other. Each error begins as those of Agrees, and
// Carries expects what Agrees expects.
//
// Open does not ask it: a rail that is in force goes on, and its file is refused when it is checked or applied again.
func (c Config) Carries(profile rails.Profile) error {
	var all faults
	sends, asks := c.carried()
	keyless := !sends("rail_key")
	const noKey = "but no send carries the rail key, the one name that no two payments share: " +
		"give it by http.send.idempotency_header, or as rail_key in http.send.body or {rail_key} in http.send.path"
	if keyless && profile.ResendOnUnknown == payment.ResendSameKey {
		all.refuse("profile.resend_on_unknown", "is SAME_KEY "+noKey)
	}
	if keyless && profile.AnswerCoversKey {
		all.refuse("profile.answer_covers_key", "is true "+noKey)
	}
	if joinsIDs(c.Send.Path) {
		all.refuse("http.send.path", "joins participant_id and instruction_id, so that two payments may have one path: "+
			"give each a segment or a value of the query")
	}
	all.echo("http.send.response", c.Send.Response.Echo, c.Send.Response.EchoIs, keyless)
	if profile.Kind != rails.KindMessage {
		if !slices.ContainsFunc(amountSources, sends) && !sends("payload.amount") {
			all.refuse("http.send.body", "has no amount, so that the bank is not told what to pay: add amount.decimal, "+
				"another source of the amount, or payload.amount")
		}
		if !sends("currency") && !sends("payload.currency") && len(profile.Checks.Currencies) != 1 {
			all.refuse("http.send.body", "has no currency, so that the bank can't tell one from another: add currency, "+
				"or name the one that the rail takes in profile.checks.currencies")
		}
	}
	all.topLevel("http.send.response", c.Send.Response.paths())
	if c.Inquiry == nil {
		return errors.Join(all...)
	}
	has, how := sends, ""
	switch {
	case asks("rail_key") || c.Inquiry.needsReference():
	case c.asksByIDs():
		has, how = c.sendsWhole, " as a value of its own"
	case asks("instruction_id"):
		all.refuse("http.inquiry", "asks by instruction_id, which payments of two participants may share, so that the bank "+
			"can answer about another one: ask by rail_key, by the bank's reference, or by participant_id, too, each as "+
			"a value of its own")
	default:
		all.refuse("http.inquiry", "names no payment, so that the bank can answer about any: ask by rail_key or by the "+
			"bank's reference")
	}
	for _, name := range []string{"rail_key", "instruction_id", "participant_id"} {
		if asks(name) && !has(name) {
			all.refuse("http.inquiry", "asks by %s, which no send carries%s, so that the bank finds no payment by it: add "+
				"it to http.send.body", name, how)
		}
	}
	all.echo("http.inquiry.response", c.Inquiry.Response.Echo, c.Inquiry.Response.EchoIs, keyless)
	all.topLevel("http.inquiry.response", c.Inquiry.Response.paths())
	all.listed(*c.Inquiry)
	return errors.Join(all...)
}

// CarriesKey reports whether a send carries the rail key, by which a callback names its payment.
func (c Config) CarriesKey() bool {
	sends, _ := c.carried()
	return sends("rail_key")
}

// echo refuses an echo that is not of one payment alone, or of what the bank was not sent.
func (f *faults) echo(field, path, is string, keyless bool) {
	switch {
	case path == "":
	case is != "rail_key":
		f.refuse(field+".echo_is", "is %s, which payments of two participants may share, so that an answer about another "+
			"one is believed: send the rail key, and read it here", is)
	case keyless:
		f.refuse(field+".echo", "is the rail key, which no send carries: the bank can't repeat it")
	}
}

// topLevel refuses a path that begins with an index: an answer is read if it is an object, and not if it is a list.
func (f *faults) topLevel(field string, paths map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		if first, _, _ := strings.Cut(paths[name], "."); jsondoc.Element(first) != "" {
			f.refuse(field+"."+name, "is %q, which begins with an index: an answer that is a list is not read, so that "+
				"nothing is ever found there", paths[name])
		}
	}
}

// listed refuses what is read of one element of a list unless that element repeats the rail key: a bank that ignores a
// filter which it does not know answers with the payments of others. No bank ignores the path of a request: where that
// names the payment, by one of its keys or by both ids, an echo shows that all of the object that has it is ours, and a
// number of 100 or more is taken for a key, because no list has so many elements of one payment.
func (f *faults) listed(asks InquiryConfig) {
	r := asks.Response
	path, _, _ := strings.Cut(asks.Path, "?")
	named := strings.Contains(path, "{rail_key}") || strings.Contains(path, "{reference}") ||
		wholeIn(path, template{}, "instruction_id") && wholeIn(path, template{}, "participant_id")
	for _, name := range []string{"status", "reference"} {
		path := r.paths()[name]
		element := jsondoc.Element(path)
		switch {
		case element == "" || r.Echo != "" && element == jsondoc.Element(r.Echo):
		case named && (encloses(r.Echo, path) || !listsMany(path)):
		default:
			f.refuse("http.inquiry.response."+name, "is %q, and nothing shows that %s is our payment: name the place of the "+
				"rail key in it by http.inquiry.response.echo, such as %s.reference", path, element, element)
		}
	}
}

// encloses reports whether the object that has an echo has a path, too.
func encloses(echo, path string) bool {
	object := echo[:strings.LastIndex(echo, ".")+1]
	return echo != "" && strings.HasPrefix(path, object)
}

// listsMany reports whether a path has an index that is no number such as a year.
func listsMany(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "."), func(key string) bool {
		n, err := strconv.Atoi(key)
		return err == nil && n < 100 && jsondoc.Element(key) != ""
	})
}

// carried returns which sources a send and an inquiry have, anywhere in their requests. What is no source is Validate's
// to refuse.
func (c Config) carried() (sends, asks func(source string) bool) {
	send, _ := compileTemplate(c.Send.Body, sendSources)
	sends = func(source string) bool {
		return strings.Contains(c.Send.Path, "{"+source+"}") || send.root.mentions(source) ||
			source == "rail_key" && c.Send.IdempotencyHeader != ""
	}
	if c.Inquiry == nil {
		return sends, nil
	}
	ask, _ := compileTemplate(c.Inquiry.Body, inquirySources)
	asks = func(source string) bool {
		return strings.Contains(c.Inquiry.Path, "{"+source+"}") || ask.root.mentions(source)
	}
	return sends, asks
}
