package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// participantsBody is the body of a list of participants.
type participantsBody struct {
	Rows   []participantRow
	Prefix string
	First  bool   // the list begins with the first one
	Next   string // the address of the next page; empty: this is the last one
	More   string // a plus after numbers of waiting instructions that may be higher
}

// participantRow is a participant in a list.
type participantRow struct {
	reader.ListedParticipant
	Address string
	Pause   string // empty: none of its own
}

// participants lists participants, by the beginning of their ids.
func (c *Console) participants(w http.ResponseWriter, r *http.Request, _ Person) {
	filter := reader.ParticipantFilter{Prefix: strings.TrimSpace(r.FormValue("prefix")), After: r.FormValue("after")}
	list, err := c.reader.Participants(r.Context(), filter)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := participantsBody{Prefix: filter.Prefix, First: filter.After == "", More: plus(list.PendingCapped)}
	for _, one := range list.Participants {
		row := participantRow{ListedParticipant: one, Address: addressOf(ofParticipants, one.ParticipantID)}
		if one.Pause != nil {
			row.Pause = explain.SayPause(*one.Pause)
		}
		body.Rows = append(body.Rows, row)
	}
	if list.Next != "" {
		body.Next = "/participants?" + url.Values{"prefix": {filter.Prefix}, "after": {list.Next}}.Encode()
	}
	c.show(w, r, "participants.html", page{Title: "Participants", Body: body})
}

// participantBody is the body of the page of one participant.
type participantBody struct {
	reader.Participant
	Pausing    pausing
	Everything string // the pause of everything; empty: none
	Gate       string // why enqueue is closed for it; empty: its own gate is open
	More       string // a plus after numbers of waiting instructions that may be higher
	All        bool   // every number of it was read
	Gap        int64  // numbers that no instruction has
	Payments   string // the address of its payments
	Did        string // what was just done; empty: nothing
}

// participant shows one participant.
func (c *Console) participant(w http.ResponseWriter, r *http.Request, person Person) {
	name := nameIn(r, ofParticipants)
	found, err := c.reader.Participant(r.Context(), name)
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		c.fail(w, r, problem{http.StatusNotFound, "There is no such participant",
			"None with this id has enqueued anything in this cell. Search by the beginning of an id."})
		return
	case err != nil:
		c.failed(w, r, err)
		return
	}
	body := participantBody{
		Participant: found, Pausing: c.pausing(ofParticipants, name, "participant", found.Pause, person),
		More: plus(found.PendingCapped), All: found.Numbers < reader.NumbersLooked, Gap: found.Missing(),
		Payments: "/payments?" + url.Values{"participant": {name}}.Encode(), Did: c.justDone(r),
	}
	if found.Everything != nil {
		body.Everything = explain.SayPause(*found.Everything)
	}
	if gate := found.Gate; gate != nil {
		body.Gate = explain.SayGate(*gate)
	}
	c.show(w, r, "participant.html", page{Title: "Participant " + name, Body: body})
}
