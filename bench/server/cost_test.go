package server

import "testing"

func TestParseStat(t *testing.T) {
	line := "4711 (post) gres: x) S 42 4711 4711 0 -1 4194560 2605 99 0 0 11 5 7 3 20 0 1 0 8245 1 2"
	got, err := parseStat([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if want := (stat{state: 'S', parent: 42, ticks: 16, reaped: 10}); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if _, err := parseStat([]byte("4711 (x) S 1")); err == nil {
		t.Error("a line that is too short was read")
	}
}
