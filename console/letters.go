package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// lettersLimit is the length of a page of dead letters, and so the most that are ticked for one act.
const lettersLimit = 50

// noCode is the code in the address that selects dead letters without one.
const noCode = "-"

// lettersBody is the body of a page of dead letters.
type lettersBody struct {
	Groups  []failureGroup
	More    bool   // there are more than Groups counts
	Count   string // of all that the filter selects
	Rows    []letterRow
	Query   url.Values // the filter, as in the address
	Reasons []payment.DeadReason
	Triages []triageState
	Rails   []string
	Next    string // the address of the next page; empty: this is the last one
	Back    string // the filter, for the page that follows an act
	Acts    []string
	MayAct  bool
	Form    string // names the form, which gives one order
	Ticked  string // the name of its ticks
}

// letterRow is a dead letter in a list.
type letterRow struct {
	reader.Letter
	Tone explain.Tone // of its reason
	Code string
	// SeenName and Seen are the field of the form with what the list shows of it.
	SeenName, Seen string
}

// triageState is a value of the filter by triage.
type triageState struct{ Value, Text string }

// triageStates are the values of the filter by triage; none is every open letter.
var triageStates = []triageState{
	{"", "open"}, {"pending", "new (pending)"}, {"acknowledged", "acknowledged"}, {"escalated", "escalated"},
	{"manual_replay", "closed: replayed"}, {"resolved", "closed: resolved"},
}

// letterFilterNames are the fields of the filter in the address, and the place of the page.
var letterFilterNames = []string{"reason", "code", "rail", "participant", "triage", "older", "newer", "after"}

// letters shows a page of dead letters, by the filter in the address, and what went wrong with all that
// the filter selects.
func (c *Console) letters(w http.ResponseWriter, r *http.Request, person Person) {
	query := knownFields(r.URL.Query(), letterFilterNames)
	filter, err := letterFilterOf(query)
	if err != nil {
		c.fail(w, r, problem{http.StatusBadRequest, "The filter can't be read", err.Error()})
		return
	}
	groups, more, err := c.reader.LettersByCode(r.Context(), filter)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	found, err := c.reader.DeadLetters(r.Context(), filter)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	form := newSecret()
	body := lettersBody{
		Groups: groupsOf(groups, more, query.Get("triage")), More: more, Count: countOf(groups) + plus(more), Query: query,
		Reasons: payment.DeadReasons(), Triages: triageStates, Rails: c.railNames(), Back: query.Encode(), Acts: actsOnMany,
		MayAct: c.operator != nil && person.May(), Form: form, Ticked: tickedName(form),
	}
	if len(found) > lettersLimit {
		found = found[:lettersLimit]
		body.Next = "/dead-letters?" + with(query, "after", placeText(found[lettersLimit-1].Place())).Encode()
	}
	for _, letter := range found {
		body.Rows = append(body.Rows, letterRow{
			letter, explain.ToneOfReason(letter.Reason), explain.SaidCodes(letter.ErrorCode, letter.RailCode),
			seenName(letter.OutboxID), seenText(operator.AnyAttempt, &letter.DeadLetter),
		})
	}
	c.show(w, r, "letters.html", page{Title: "Dead letters", Body: body})
}

// letterFilterOf reads the filter, and returns every fault of it at once. It asks for one letter more
// than a page has.
func letterFilterOf(query url.Values) (reader.LetterFilter, error) {
	filter := reader.LetterFilter{
		Reason: payment.DeadReason(strings.ToUpper(query.Get("reason"))), ErrorCode: query.Get("code"),
		RailType: query.Get("rail"), ParticipantID: query.Get("participant"), Status: query.Get("triage"),
		Limit: lettersLimit + 1,
	}
	filter.WithoutCode = filter.ErrorCode == noCode
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if filter.Reason != "" && !slices.Contains(payment.DeadReasons(), filter.Reason) {
		refuse("there is no such reason; use one of %v", payment.DeadReasons())
	}
	if filter.Status != "" && !slices.Contains(payment.LetterStatuses(), payment.LetterStatus(filter.Status)) {
		refuse("there is no such state of triage; use one of %v", payment.LetterStatuses())
	}
	for name, into := range map[string]*time.Duration{"newer": &filter.NewerThan, "older": &filter.OlderThan} {
		if text := query.Get(name); text != "" {
			span, err := time.ParseDuration(text)
			if *into = span; err != nil || span < 0 {
				refuse("%s than is a span such as 90m or 24h", name)
			}
		}
	}
	if text := query.Get("after"); text != "" {
		var ok bool
		if filter.After, ok = parsePlace(text); !ok {
			refuse("the page begins at no dead letter: go back to the first page")
		}
	}
	return filter, errors.Join(faults...)
}

// placeText is a place in an address.
func placeText(place reader.LetterPlace) string {
	return place.At.UTC().Format(time.RFC3339Nano) + "_" + place.OutboxID.String()
}

func parsePlace(text string) (place reader.LetterPlace, ok bool) {
	at, id, _ := strings.Cut(text, "_")
	var wrong, other error
	place.At, wrong = time.Parse(time.RFC3339Nano, at)
	place.OutboxID, other = payment.ParseID(id)
	return place, wrong == nil && other == nil
}

// failureGroup is what went wrong with some dead letters: their reason, code and rail.
type failureGroup struct {
	Reason      payment.DeadReason
	Code, Rail  string
	Tone        explain.Tone
	Count       int64
	More        string // a plus after counts that ended at their bound
	First, Last time.Time
	Sums        []string // a sum for each currency
	Link        string   // to the dead letters of the group
	Alert       string   // whose runbook is about them
}

// groupsOf joins the groups that differ by their currency alone, the largest one first. They lead to a
// list with the same state of triage.
func groupsOf(groups []reader.LetterGroup, more bool, triage string) []failureGroup {
	type kind struct {
		reason     payment.DeadReason
		code, rail string
	}
	at := make(map[kind]int)
	var all []failureGroup
	for _, group := range groups {
		of := kind{group.Reason, group.ErrorCode, group.RailType}
		n, found := at[of]
		if !found {
			n = len(all)
			at[of] = n
			all = append(all, failureGroup{
				Reason: group.Reason, Code: group.ErrorCode, Rail: group.RailType, Tone: explain.ToneOfReason(group.Reason),
				More: plus(more), First: group.FirstAt, Last: group.LastAt, Alert: alertOf(group.Reason),
				Link: "/dead-letters?" + knownFields(url.Values{
					"reason": {string(group.Reason)}, "code": {cmp.Or(group.ErrorCode, noCode)}, "rail": {group.RailType},
					"triage": {triage},
				}, letterFilterNames).Encode(),
			})
		}
		one := &all[n]
		one.Count += group.Letters
		if group.FirstAt.Before(one.First) {
			one.First = group.FirstAt
		}
		if group.LastAt.After(one.Last) {
			one.Last = group.LastAt
		}
		if group.Amount != "" {
			one.Sums = append(one.Sums, group.Amount+plus(more)+" "+cmp.Or(group.Currency, "without a currency"))
		}
	}
	slices.SortStableFunc(all, func(a, b failureGroup) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// alertOf is the alert whose runbook is about dead letters of a reason.
func alertOf(reason payment.DeadReason) string {
	switch {
	case reason.IsUnpaid():
		return "RailheadDeadLettersGrowing"
	case reason == payment.DeadConflict:
		return "RailheadConflictOpened"
	default:
		return "RailheadPaymentParked"
	}
}

func countOf(groups []reader.LetterGroup) string {
	var all int64
	for _, group := range groups {
		all += group.Letters
	}
	return count(all)
}

// knownFields returns the fields with these names that are not empty.
func knownFields(query url.Values, names []string) url.Values {
	known := url.Values{}
	for _, name := range names {
		if value := strings.TrimSpace(query.Get(name)); value != "" {
			known.Set(name, value)
		}
	}
	return known
}

// with returns a query with another value of one field.
func with(query url.Values, name, value string) url.Values {
	changed := url.Values{}
	for name := range query {
		changed.Set(name, query.Get(name))
	}
	changed.Set(name, value)
	return changed
}

// railNames are the rails that were read last, for lists of what can be typed.
func (c *Console) railNames() []string {
	var names []string
	if seen := c.state.seen.Load(); seen != nil {
		for _, rail := range seen.Rails {
			names = append(names, rail.RailType)
		}
	}
	return names
}
