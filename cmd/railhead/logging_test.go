package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestLogMovesNoTerminal: texts of rails, callers and payloads come into no line of a log as a terminal would obey
// them, wherever in the line they are; as JSON they are whole.
func TestLogMovesNoTerminal(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"json", "text"} {
		var said strings.Builder
		log, err := newLog(settings{LogLevel: "info", LogFormat: form, WorkerID: "w" + moves, Setting: moves, logTo: &said},
			"relayer")
		if err != nil {
			t.Fatal(err)
		}
		log.With("with", moves).WithGroup("g").Error(moves, moves, "x", "error", errors.New(moves), "any", []string{moves},
			slog.Group("group", "field", moves))
		stays(t, form, said.String())
		if strings.Count(said.String(), "\n") != 1 || !strings.HasSuffix(said.String(), "\n") {
			t.Errorf("%s: not one line: %q", form, said.String())
		}
		if form == "text" {
			continue
		}
		var line struct {
			Msg      string `json:"msg"`
			WorkerID string `json:"worker_id"`
			G        struct {
				Error string
				Any   []string
			} `json:"g"`
		}
		if err := json.Unmarshal([]byte(said.String()), &line); err != nil || line.Msg != moves || line.G.Error != moves ||
			line.WorkerID != "w"+moves || len(line.G.Any) != 1 || line.G.Any[0] != moves {
			t.Errorf("%+v, %v: %s", line, err, said.String())
		}
	}
}
