package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// componentsBody is the body of the page of components.
type componentsBody struct {
	Rows        []componentRow
	More        bool     // there are more components
	Absent      []string // kinds without which payments do not go on, and of which none runs
	Versions    string   // of the components that run, with their numbers
	Mixed       bool     // they are several
	Serving     string
	Newer       bool // the cell is at a later migration than this build
	Suspensions []suspensionRow
	Open        *suspensionRow // the one that is open; nil: none is
	TakesNone   bool           // the cell takes no instruction: its map of cells was not compared
	Untaken     int64          // buckets whose participants no cell takes, by the map of this one
	MayAct      bool
	Did         string // what was just done; empty: nothing
}

// componentRow is a component with what the age of its heartbeat means.
type componentRow struct {
	reader.Beat
	Tone      explain.Tone
	Says      string
	Alert     string // whose runbook helps; empty: none is needed
	Clock     string
	ClockTone explain.Tone
}

// suspensionRow is a suspension.
type suspensionRow struct {
	reader.Suspension
	IsOpen bool
	Since  string // names it, to accept the server
}

// Compared is the name of the tick that it was compared.
func (r suspensionRow) Compared() string { return comparedName(r.Since) }

// components shows the heartbeats, the version of the schema and the suspensions.
func (c *Console) components(w http.ResponseWriter, r *http.Request, person Person) {
	seen := c.stateFor(w, r)
	if seen == nil {
		return
	}
	schema, suspensions, err := c.reader.Installed(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	taken, err := c.reader.MapState(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := componentsBody{
		TakesNone: !taken.Confirmed, Untaken: taken.Untaken,
		More: seen.IsCutShort(reader.PartHeartbeats), Serving: explain.Serving(schema),
		Newer: schema.Migration > schema.OfBuild, MayAct: c.mayAct(person), Did: c.justDone(r),
	}
	body.addBeats(seen)
	for _, one := range suspensions {
		row := suspensionRow{one, one.AcceptedAt.IsZero(), one.OpenedAt.UTC().Format(time.RFC3339)}
		if row.IsOpen {
			body.Open = &row
		}
		body.Suspensions = append(body.Suspensions, row)
	}
	c.show(w, r, "components.html", page{Title: "Components", Body: body})
}

func (b *componentsBody) addBeats(seen *seen) {
	running := make(map[string]int)
	versions := make(map[string]int)
	for _, beat := range seen.Heartbeats {
		replaced := explain.Replaced(beat, seen.Heartbeats, seen.Now)
		row := componentRow{Beat: beat, Tone: explain.ToneOfFreshness(beat.Freshness),
			Says: explain.Heartbeat(beat, replaced)}
		row.Clock, row.ClockTone = explain.ClockOffset(beat.ClockOffsetMS)
		switch {
		case beat.Freshness == reader.Stale && replaced:
			row.Tone = explain.Plain
		case beat.Freshness == reader.Stale && beat.Kind == "reaper":
			row.Alert = "RailheadReaperNotRunning"
		case beat.Freshness == reader.Stale:
			row.Alert = "RailheadComponentStale"
		}
		if beat.Freshness == reader.Fresh || beat.Freshness == reader.Warning {
			running[beat.Kind]++
			versions[beat.Version]++
		}
		b.Rows = append(b.Rows, row)
	}
	if !b.More {
		for _, kind := range []string{"relayer", "reaper"} {
			if running[kind] == 0 {
				b.Absent = append(b.Absent, kind)
			}
		}
	}
	texts := make([]string, 0, len(versions))
	for version, number := range versions {
		texts = append(texts, fmt.Sprintf("%s: %d", explain.OrDash(explain.OneLine(version)), number))
	}
	slices.Sort(texts)
	b.Versions, b.Mixed = strings.Join(texts, ", "), len(texts) > 1
}

// acceptServer ends the suspension that the page showed, for a person who has compared it with the rails. The
// database refuses it if another one is open by now.
func (c *Console) acceptServer(w http.ResponseWriter, r *http.Request, person Person) {
	reason, ok := c.reasonOf(w, r)
	if !ok {
		return
	}
	named := r.PostForm.Get("since")
	since, err := time.Parse(time.RFC3339, named)
	if err != nil || since.IsZero() || r.PostForm.Get(comparedName(named)) != "yes" {
		c.fail(w, r, problem{http.StatusBadRequest, "The form is incomplete",
			"Nothing was done. Name the suspension, and tick that you have compared it with the statements of the rails."})
		return
	}
	_, err = c.operator.AcceptTimeline(r.Context(), since, reason)
	c.log.InfoContext(r.Context(), "act", "act", "accept", "of", "server", "person", person.Name, "outcome", wordOf(err))
	if err != nil {
		c.failed(w, r, err)
		return
	}
	c.leadOn(w, r, "/components", "The server is accepted. What is paused stays paused.")
}
