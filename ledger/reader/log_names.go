package reader

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/outbox"
)

// LoggedKinds returns the acts that the operator log may have, in alphabetical order.
func LoggedKinds() []string {
	return []string{
		"ACCEPT_TIMELINE", "ADD_CELL", "APPLY_PROFILE", "CANCEL", "CLOSE_ENQUEUE", "CONFIRM_MAP", "CREATE_TOKEN",
		"DISCARD_EVENTS", "FREEZE_BUCKET", "GIVE_BUCKETS", "INQUIRE", "LEARN_CELLS", "NOTE_CELL_SERVER", "OPEN_ENQUEUE",
		"PACK_BUCKET", "PAUSE_ENDPOINT", "PAUSE_PARTICIPANT", "PAUSE_RAIL", "PRUNE", "REDELIVER_EVENTS", "REJOIN_CELL",
		"REPLAY", "RESCHEDULE", "RESOLVE", "RESUME_PARTICIPANT", "RESUME_RAIL", "REVEAL_PAYLOAD", "REVOKE_TOKEN",
		"SEND_NOW", "SETTLE_BUCKETS", "SET_TIME_BUDGET", "SKIP_IN_ORDER", "THAW_BUCKET", "TRIAGE",
	}
}

// kindOf returns the act that a filter names, in any case and with any of "-", "_" and " " between its words. Empty is
// any act; one that does not exist is refused with those that do (outbox.ErrUnanswerable).
func kindOf(text string) (string, error) {
	kind := strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(strings.TrimSpace(text)))
	if kind != "" && !slices.Contains(LoggedKinds(), kind) {
		return "", fmt.Errorf("%w: there is no act %q: the acts are %s", outbox.ErrUnanswerable, text,
			strings.Join(LoggedKinds(), ", "))
	}
	return kind, nil
}

// NeverLogged returns a sentence for each name of a filter that is in no act of the whole log: a subject, a login or a
// person. It explains a filter that no act fits: a name that was mistyped is one.
func (r *Reader) NeverLogged(ctx context.Context, filter LogFilter) (sentences []string, err error) {
	for _, name := range []struct {
		text, says string
		alone      LogFilter
	}{
		{filter.Subject, "nothing of the name %q was ever acted on", LogFilter{Subject: filter.Subject}},
		{filter.Actor, "no login of the name %q ever acted", LogFilter{Actor: filter.Actor}},
		{filter.Person, "no person of the name %q ever acted", LogFilter{Person: filter.Person}},
	} {
		if name.text == "" {
			continue
		}
		name.alone.Limit = 1
		acts, _, err := r.OperatorLog(ctx, name.alone)
		if err != nil {
			return nil, err
		}
		if len(acts) == 0 {
			sentences = append(sentences, fmt.Sprintf(name.says, name.text))
		}
	}
	return sentences, nil
}
