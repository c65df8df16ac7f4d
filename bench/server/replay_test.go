package server

import (
	"testing"
	"time"
)

func TestRedoTook(t *testing.T) {
	const line = "2026-03-01 12:00:00.000 UTC [7] LOG:  redo done at 0/3A000028 system usage: CPU: user: 1.52 s, " +
		"system: 0.21 s, elapsed: 2.34 s\n"
	if got, err := redoTook([]byte("LOG:  redo starts at 0/2000028\n" + line)); err != nil ||
		got != 2340*time.Millisecond {
		t.Errorf("got %s, %v", got, err)
	}
	short := "LOG:  redo done at 0/3A000028 system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.00 s\n"
	if got, err := redoTook([]byte(short)); err != nil || got != logTick {
		t.Errorf("too short to be seen: %s, %v", got, err)
	}
	for _, log := range []string{"", "LOG:  redo is not required\n"} {
		if got, err := redoTook([]byte(log)); err == nil {
			t.Errorf("%q: took %s", log, got)
		}
	}
}
