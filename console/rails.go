package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// railsBody is the body of the list of rails.
type railsBody struct {
	Rails   []railRow
	More    bool // there are more rails
	Pausing pausing
	Did     string // what was just done; empty: nothing
}

// rails lists the rails, with the pause of everything.
func (c *Console) rails(w http.ResponseWriter, r *http.Request, person Person) {
	seen := c.stateFor(w, r)
	if seen == nil {
		return
	}
	// The state is some seconds old, and the page may follow an act.
	everything, err := c.reader.RailPause(r.Context(), operator.Everything)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := railsBody{
		More: seen.IsCutShort(reader.PartRails), Did: c.justDone(r),
		Pausing: c.pausing(ofRails, operator.Everything, "rail", everything, person),
	}
	for _, rail := range seen.Rails {
		body.Rails = append(body.Rails, railOf(rail, seen))
	}
	c.show(w, r, "rails.html", page{Title: "Rails", Body: body})
}

// railBody is the body of the page of one rail.
type railBody struct {
	Name       string
	Row        *railRow // nil: the state that was read last does not have it
	Pausing    pausing
	Everything string // the pause of everything; empty: none
	Lanes      []laneRow
	Profile    profileBody
	Ends       []endRow
	Codes      codesBody
	Versions   []reader.ProfileVersion
	Older      int // the older versions begin below this one; 0: there are none
	InForce    int
	Changes    changesBody
	Did        string // what was just done; empty: nothing
}

// laneRow is a relayer that serves a rail.
type laneRow struct {
	reader.Lane
	Tone  explain.Tone // of the breaker
	Rated string       // calls a second; empty: no bound
}

// rail shows one rail: its state, its profile with its versions, and the codes of its answers.
func (c *Console) rail(w http.ResponseWriter, r *http.Request, person Person) {
	name := r.PathValue("name")
	query := reader.ProfileQuery{RailType: name}
	for field, into := range map[string]*int{"from": &query.Before, "to": &query.After, "older": &query.OlderThan} {
		text := r.FormValue(field)
		number, err := strconv.Atoi(text)
		if text != "" && (err != nil || number < 1) {
			c.fail(w, r, problem{http.StatusBadRequest, "There is no such version", "A version is a number from 1 on."})
			return
		}
		*into = number
	}
	seen := c.stateFor(w, r)
	if seen == nil {
		return
	}
	profiles, err := c.reader.RailProfiles(r.Context(), query)
	if errors.Is(err, outbox.ErrNotFound) {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such rail", "The page of rails lists those of this cell."})
		return
	}
	var own, everything *reader.Pause
	var codes reader.RailCodes
	if err == nil {
		own, err = c.reader.RailPause(r.Context(), name)
	}
	if err == nil {
		everything, err = c.reader.RailPause(r.Context(), operator.Everything)
	}
	if err == nil {
		codes, err = c.reader.RailCodes(r.Context(), name)
	}
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := railBody{
		Name: name, Pausing: c.pausing(ofRails, name, "rail", own, person), Profile: profileOf(profiles.InForce),
		Codes: codesOf(codes, profiles.InForce), Versions: profiles.Versions, InForce: profiles.InForce.Version,
		Ends: endsOf(codes.Ends), Changes: changesOf(query, profiles), Did: c.justDone(r),
	}
	if profiles.More {
		body.Older = profiles.Versions[len(profiles.Versions)-1].Version
	}
	if everything != nil {
		body.Everything = explain.SayPause(*everything)
	}
	if at := slices.IndexFunc(seen.Rails, func(rail reader.RailStatus) bool { return rail.RailType == name }); at >= 0 {
		row := railOf(seen.Rails[at], seen)
		body.Row, body.Lanes = &row, lanesOf(row.Lanes)
	}
	c.show(w, r, "rail.html", page{Title: "Rail " + name, Body: body})
}

func lanesOf(lanes []reader.Lane) []laneRow {
	rows := make([]laneRow, 0, len(lanes))
	for _, lane := range lanes {
		row := laneRow{Lane: lane, Tone: toneOfBreaker(lane.Breaker)}
		if lane.Rate > 0 {
			row.Rated = strconv.FormatFloat(lane.Rate, 'g', -1, 64)
		}
		rows = append(rows, row)
	}
	return rows
}
