package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// subject is the kind of what an act is done on that is no payment: the address of its list.
type subject string

// The subjects.
const (
	ofRails        subject = "rails"
	ofParticipants subject = "participants"
	ofEndpoints    subject = "endpoints"
)

// subjectAct is an act on a rail, a participant or an endpoint. It returns whether it changed
// anything. The reason has the person in it.
type subjectAct func(ctx context.Context, op Operator, name string, form subjectForm, reason string) (bool, error)

// subjectForm is the form of an act on a subject, and the time of the database's clock.
type subjectForm struct {
	url.Values
	now time.Time
}

// subjectActs are the acts of the console that are not on one payment, by subject and name.
var subjectActs = map[subject]map[string]subjectAct{
	ofRails: {
		"pause": func(ctx context.Context, op Operator, name string, form subjectForm, reason string) (bool, error) {
			until, err := endOf(form)
			if err != nil {
				return false, err
			}
			return op.PauseRail(ctx, name, reason, until)
		},
		"resume": func(ctx context.Context, op Operator, name string, form subjectForm, reason string) (bool, error) {
			shown, err := pauseShown(form.Get("seen"))
			if err != nil {
				return false, err
			}
			return op.ResumeRail(operator.IfPauseIs(ctx, name, "", shown), name, reason)
		},
	},
	ofParticipants: {
		"pause": func(ctx context.Context, op Operator, name string, form subjectForm, reason string) (bool, error) {
			until, err := endOf(form)
			if err != nil {
				return false, err
			}
			return op.PauseParticipant(ctx, name, reason, until)
		},
		"resume": func(ctx context.Context, op Operator, name string, form subjectForm, reason string) (bool, error) {
			shown, err := pauseShown(form.Get("seen"))
			if err != nil {
				return false, err
			}
			return op.ResumeParticipant(operator.IfPauseIs(ctx, "", name, shown), name, reason)
		},
	},
	ofEndpoints: {
		"redeliver": func(ctx context.Context, op Operator, name string, form subjectForm, reason string) (bool, error) {
			since, err := sinceOf(form)
			if err != nil {
				return false, err
			}
			shown, err := endpointShown(form.Get("seen"))
			if err != nil {
				return false, err
			}
			waited, err := op.Redeliver(operator.IfEndpointPauseIs(ctx, name, shown), name, since, reason)
			return waited > 0, err
		},
		"discard": func(ctx context.Context, op Operator, name string, form subjectForm, reason string) (bool, error) {
			shown, err := endpointShown(form.Get("seen"))
			if err != nil {
				return false, err
			}
			discarded, err := op.Discard(operator.IfGivenUpIs(ctx, name, shown), name, reason)
			return discarded > 0, err
		},
	},
}

// doneSentences are what a page says after an act, by its name and whether it changed anything.
var doneSentences = map[string]string{
	"pause":       "Paused.",
	"pause-same":  "It was paused already, and stays so: its reason has what was said now, too, and it ends at the later of the two ends.",
	"resume":      "Resumed.",
	"resume-same": "It was not paused: nothing was changed.",
	"redeliver":   "Its waiting events are due now.",
	"discard":     "The events that were given up are discarded.",

	"redeliver-same": "No event waited: none became due. Those since a moment that was given are delivered again.",
	"discard-same":   "No event was given up: nothing was discarded.",
}

// endOf is when a pause ends: after the span of the form, by the database's clock; zero: it has no end.
func endOf(form subjectForm) (time.Time, error) {
	text := strings.TrimSpace(form.Get("for"))
	if text == "" {
		return time.Time{}, nil
	}
	span, err := time.ParseDuration(text)
	if err != nil || span < time.Second {
		return time.Time{}, errIncomplete("a span for the pause, such as 90m or 24h, of 1s or more")
	}
	return form.now.Add(span), nil
}

// sinceOf is the moment of the form from which on events are delivered again; zero: only those that
// wait.
func sinceOf(form subjectForm) (time.Time, error) {
	text := strings.TrimSpace(form.Get("since"))
	if text == "" {
		return time.Time{}, nil
	}
	since, err := time.Parse(time.RFC3339, text)
	if err != nil || since.Year() < 2000 || since.After(form.now) {
		return time.Time{}, errIncomplete("a moment in the past, such as 2026-11-26T09:00:00Z")
	}
	return since, nil
}

// actOn does one act on a subject of a kind.
func (c *Console) actOn(of subject) func(http.ResponseWriter, *http.Request, Person) {
	return func(w http.ResponseWriter, r *http.Request, person Person) {
		name, act := nameIn(r, of), r.PathValue("act")
		do, known := subjectActs[of][act]
		if !known {
			c.fail(w, r, problem{http.StatusNotFound, "There is no such act", "Nothing was done. Begin at the page of " +
				string(of) + "."})
			return
		}
		reason, ok := c.reasonOf(w, r)
		if !ok {
			return
		}
		now, ok := c.databaseClock(r.Context())
		if !ok {
			c.fail(w, r, problem{http.StatusServiceUnavailable, "The database's clock is not known",
				"Nothing was done. The state of the cell was not read yet: try again in some seconds."})
			return
		}
		changed, err := do(r.Context(), c.operator, name, subjectForm{r.PostForm, now}, reason)
		if incomplete, ok := err.(errIncomplete); ok {
			c.fail(w, r, problem{http.StatusBadRequest, "The form is incomplete", "Nothing was done. " + incomplete.Error() +
				"."})
			return
		}
		c.log.InfoContext(r.Context(), "act", "act", act, "of", string(of), "name", explain.Bounded(name, nameMax),
			"person", person.Name, "outcome", wordOf(err))
		switch {
		case errors.Is(err, outbox.ErrNotFound):
			c.fail(w, r, problem{http.StatusNotFound, "There is no such name", "Nothing was done. Begin at the page of " +
				string(of) + "."})
		case err != nil:
			c.failed(w, r, err)
		default:
			// The pages that share the state show at once what was done.
			if err := c.refresh(r.Context()); err != nil {
				c.log.WarnContext(r.Context(), "the state of the cell was not read", "error", err)
			}
			did := act
			if !changed {
				did += "-same"
			}
			c.leadOn(w, r, addressAfter(of, name), doneSentences[did])
		}
	}
}

// databaseClock is the time by the database's clock, as the state of the cell has it.
func (c *Console) databaseClock(ctx context.Context) (now time.Time, ok bool) {
	if c.state.seen.Load() == nil {
		_ = c.refresh(ctx) // whether it was read is what counts
	}
	if seen := c.state.seen.Load(); seen != nil {
		return seen.Clock(), true
	}
	return time.Time{}, false
}

// isEverything reports whether a subject is all rails at once; a participant may have the same name.
func isEverything(of subject, name string) bool { return of == ofRails && name == operator.Everything }

// addressAfter is the page that shows what an act has done.
func addressAfter(of subject, name string) string {
	if of == ofEndpoints || isEverything(of, name) {
		return "/" + string(of)
	}
	return addressOf(of, name)
}

// addressOf is the page of a subject. The id of a participant is a parameter of it, because a caller has chosen
// it: "." and ".." are no part of a path that a browser asks for, escaped or not, and some proxies take a
// slash in one for two parts.
func addressOf(of subject, name string) string {
	if of == ofParticipants {
		return "/participant?" + url.Values{"id": {name}}.Encode()
	}
	return "/" + string(of) + "/" + url.PathEscape(name)
}

// actAddress is where the form of an act on a subject is sent to.
func actAddress(of subject, name, act string) string {
	path, parameters, has := strings.Cut(addressOf(of, name), "?")
	if has {
		return path + "/" + act + "?" + parameters
	}
	return path + "/" + act
}

// nameIn is the name of the subject that an address has.
func nameIn(r *http.Request, of subject) string {
	if of == ofParticipants {
		return r.URL.Query().Get("id")
	}
	return r.PathValue("name")
}

// pausing is what can be done about the pause of a rail, of everything or of a participant.
type pausing struct {
	PauseAt, ResumeAt string // the addresses of the acts
	Noun              string // of the command line: rail or participant
	Name              string // as a word of a shell
	Pause             string // the pause in force; empty: none
	Seen              string // the same for the form of an act
	None              string // what is said then
	MayAct            bool
}

func (c *Console) pausing(of subject, name, noun string, pause *reader.Pause, person Person) pausing {
	p := pausing{PauseAt: actAddress(of, name, "pause"), ResumeAt: actAddress(of, name, "resume"), Noun: noun,
		Name: shellWord(name), MayAct: c.mayAct(person), None: "It has no pause of its own.",
		Seen: shownPause(pause)}
	if isEverything(of, name) {
		p.Name, p.None = "--everything", "Not everything is paused."
	}
	if pause != nil {
		p.Pause = explain.SayPause(*pause)
	}
	return p
}

// mayAct reports whether pages offer acts to a person.
func (c *Console) mayAct(person Person) bool { return c.operator != nil && person.May() }

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:@/+=", r)
	}
	if text != "" && !strings.HasPrefix(text, "-") && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(explain.OneLine(text), "'", `'\''`) + "'"
}
