package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/railhead-pay/railhead/bench/against"
	"github.com/railhead-pay/railhead/bench/systems"
)

// TestMain lets a run start this program as its API.
func TestMain(m *testing.M) {
	if asked, err := systems.ServeAPI(context.Background()); asked {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestParseAgainst(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		rounds int // 0: it is refused
	}{
		"a revision":           {[]string{"-against", "HEAD"}, against.DefaultRounds},
		"and rounds":           {[]string{"-against", "HEAD", "-rounds", "2", "-most", "1.1"}, 2},
		"a short one":          {[]string{"-against", "HEAD", "-quick"}, 1},
		"no revision":          {[]string{"-against", ""}, 0},
		"with archives":        {[]string{"-against", "HEAD", "-scale"}, 0},
		"with modes":           {[]string{"-against", "HEAD", "-modes", "e2e"}, 0},
		"with a file to write": {[]string{"-against", "HEAD", "-out", "figures.json"}, 0},
	} {
		o, err := parse(c.args)
		if (err == nil) != (c.rounds > 0) || err == nil && o.rounds != c.rounds {
			t.Errorf("%s: %d rounds, %v; want %d", name, o.rounds, err, c.rounds)
		}
	}
}
