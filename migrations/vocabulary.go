package migrations

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/payment"
)

// vocabulary has the texts for names in braces in SQL files: {claim_states} is the list of
// the states for which IsClaim is true, and {is_open f} tests whether the claim of row f is
// open. The lists are made from the predicates of package payment when the text is read, so
// that SQL and Go always agree, and a statement costs no more than with a list of constants.
//
// The lists in tables are frozen with their migration: after a change of a predicate, a new
// migration has to change the tables.
type vocabulary map[string]string

// words is the vocabulary of this build.
var words = vocabulary{
	"claim_states":      listed(payment.States(), payment.State.IsClaim),
	"waiting_states":    listed(payment.States(), payment.State.Waits),
	"ended_states":      listed(payment.States(), payment.State.HasEnded),
	"unpaid_states":     listed(payment.States(), payment.State.EndsUnpaid),
	"unsettled_states":  listed(payment.States(), payment.State.LeavesOpen),
	"replayable_states": listed(payment.States(), payment.State.MayReplay),

	"event_types": eventTypes(),
	"eventless_states": listed(payment.States(), func(s payment.State) bool {
		return !s.IsClaim() && s.EventType() == ""
	}),
	"unknown_event_states": listed(payment.States(), func(s payment.State) bool {
		return s.EventType().IsUnknown()
	}),

	"refusing_results":       listed(payment.Results(), payment.Result.Refuses),
	"for_now_results":        listed(payment.Results(), payment.Result.RefusesForNow),
	"send_refusing_results":  listed(payment.Results(), payment.Result.RefusesSend),
	"send_denying_results":   listed(payment.Results(), payment.Result.DeniesSend),
	"doubtful_results":       listed(payment.Results(), payment.Result.LeavesDoubt),
	"reached_results":        listed(payment.Results(), payment.Result.ReachedRail),
	"left_nothing_results":   listed(payment.Results(), payment.Result.LeftNothing),
	"executing_results":      listed(payment.Results(), payment.Result.MayExecute),
	"showing_results":        listed(payment.Results(), payment.Result.ShowsPayment),
	"naming_results":         listed(payment.Results(), payment.Result.NamesPayment),
	"inquiry_results":        listed(payment.Results(), payment.Result.IsOfInquiry),
	"paid_after_all_results": listed(payment.Results(), payment.Result.MayMeanPaid),
	"still_busy_results":     listed(payment.Results(), payment.Result.KeepsBusy),

	"spent_codes":    listed(payment.SpentCodes(), func(string) bool { return true }),
	"unpaid_reasons": listed(payment.DeadReasons(), payment.DeadReason.IsUnpaid),
	"asked_reasons":  listed(payment.DeadReasons(), payment.DeadReason.IsAsked),
	"triage_words":   listed(payment.LetterStatuses(), payment.LetterStatus.IsTriage),
	"closed_letters": listed(payment.LetterStatuses(), payment.LetterStatus.IsClosed),

	// The insides of bracket expressions in E'' strings: what a reader does not see of a text, without the plain
	// space; and the blanks that are removed around a text.
	"unseen": payment.UnseenClass(),
	"blanks": payment.BlankClass(),

	// {row} has the outbox_id and the attempt_no of a claim; is_open tests that no answer
	// follows it. A sub-query with LIMIT can't become a join, so no plan scans the archive.
	"is_open": "(SELECT true FROM {cell}.payment_outbox_attempts z " +
		"WHERE z.outbox_id = {row}.outbox_id AND z.attempt_no > {row}.attempt_no " +
		"AND z.state <> 'LATE_OUTCOME' LIMIT 1) IS NULL",
}

// listed returns the values for which a predicate is true, as SQL constants.
func listed[W ~string](all []W, is func(W) bool) string {
	var list []string
	for _, word := range all {
		if is(word) {
			list = append(list, "'"+string(word)+"'")
		}
	}
	return strings.Join(list, ", ")
}

// eventTypes returns each state that is an event with its type, as rows of VALUES.
func eventTypes() string {
	var rows []string
	for _, state := range payment.States() {
		if event := state.EventType(); event != "" {
			rows = append(rows, fmt.Sprintf("('%s', '%s')", state, event))
		}
	}
	return strings.Join(rows, ", ")
}

// named matches {name} and {name row}.
var named = regexp.MustCompile(`\{([a-z_]+)(?: ([a-z0-9_]+))?\}`)

// in replaces the names of the vocabulary in a text. It leaves the names in others as they
// are; any other name is an error.
func (v vocabulary) in(text string, others ...string) (string, error) {
	var unknown error
	text = named.ReplaceAllStringFunc(text, func(found string) string {
		parts := named.FindStringSubmatch(found)
		name, row := parts[1], parts[2]
		meaning, there := v[name]
		switch {
		case slices.Contains(others, name):
			return found
		case !there || strings.Contains(meaning, "{row}") != (row != ""):
			unknown = fmt.Errorf("%s is not in the vocabulary, which has %s", found, strings.Join(v.usages(), ", "))
		}
		return strings.ReplaceAll(meaning, "{row}", row)
	})
	return text, unknown
}

// usages lists the names of the vocabulary in braces, in alphabetical order.
func (v vocabulary) usages() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if strings.Contains(v[name], "{row}") {
			name += " ROW"
		}
		all = append(all, "{"+name+"}")
	}
	return all
}

// Statement replaces the vocabulary and {cell} in the text of a statement. The caller must
// have checked the name of the cell. Any other name in braces is an error.
func Statement(text, cell string) (string, error) {
	text, err := words.in(text, "cell")
	return strings.ReplaceAll(text, "{cell}", cell), err
}
