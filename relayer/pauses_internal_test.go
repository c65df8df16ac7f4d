package relayer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestPauseOfLongAgo tests for how long a pause that can't be recorded is wanted.
func TestPauseOfLongAgo(t *testing.T) {
	t.Parallel()
	const within = 10 * time.Second
	for name, c := range map[string]struct {
		then    time.Duration
		refused time.Duration // again at then, and this long ago
		version int
		paused  bool
		resumed bool
		want    bool
	}{
		"at once":                                       {version: 7, want: true},
		"until twice the time":                          {then: 2*within - 1, version: 7, want: true},
		"of long ago":                                   {then: 2 * within, version: 7},
		"refused again while it is held":                {then: within - 1, refused: within + 1, version: 7},
		"refused again since":                           {then: within, refused: 2*within - 1, version: 7, want: true},
		"refused after it was forgotten":                {then: 3 * within, refused: 2*within - 1, version: 7, want: true},
		"another paused it":                             {version: 7, paused: true, want: true},
		"another paused it, and an operator resumed it": {version: 7, paused: true, resumed: true},
		"the profile was replaced":                      {version: 8},
		"the rail is served no more":                    {version: 0},
		"the refusal is of the successor":               {then: within, refused: 2*within - 1, version: 8, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				version, paused := 7, false
				p := newPauses(within, func(string) (int, bool) { return version, paused })
				p.want("bank", payment.ActionSend, rails.Result{Code: "401"})
				time.Sleep(c.then)
				version, paused = c.version, c.paused
				if c.resumed {
					p.all()
					paused = false
				}
				if c.refused > 0 {
					p.want("bank", payment.ActionSend, rails.Result{Code: "403"})
					time.Sleep(c.refused)
				}
				if _, got := p.all()["bank"]; got != c.want {
					t.Errorf("is wanted: %t, want %t", got, c.want)
				}
				if got := len(p.wanted) == 1; got != c.want {
					t.Errorf("is kept: %t, want %t", got, c.want)
				}
			})
		})
	}
}
