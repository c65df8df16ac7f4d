package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
)

// TestPatience: on a terminal a command that runs long reports it, at growing intervals.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		stop := patience(&said, "railhead payment list", patienceAfter)
		time.Sleep(5 * time.Second)
		stop()
		time.Sleep(time.Minute)
		const want = "railhead payment list: running for 1.0s\nrailhead payment list: running for 2.0s\nrailhead payment " +
			"list: running for 4.0s\n"
		if said.String() != want {
			t.Errorf("said %q", said.String())
		}
	})
}

// TestOwnProgress: every command that runs until it is stopped, or reports its progress, is marked.
func TestOwnProgress(t *testing.T) {
	t.Parallel()
	marked := map[string]bool{}
	var walk func(command *cobra.Command)
	walk = func(command *cobra.Command) {
		if command.Annotations[ownProgress] != "" {
			marked[command.CommandPath()] = true
		}
		for _, sub := range command.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand())
	for _, name := range []string{"run", "relayer", "reaper", "callbacks", "api", "events", "console", "dev", "log",
		"payment tail", "prove", "prove run", "enqueue", "prune"} {
		if path := "railhead " + name; !marked[path] {
			t.Errorf("%s is not marked: its output would be mixed with another progress", path)
		}
		delete(marked, "railhead "+name)
	}
	if len(marked) > 0 {
		t.Errorf("marked, and not listed here: %v", marked)
	}
}

// TestFollowOverAnOutage: follow continues over an outage of the database, after its first poll,
// and reports it once. A database that can't be reached at the start, an error of another kind, and
// a single poll end it.
func TestFollowOverAnOutage(t *testing.T) {
	t.Parallel()
	outage, other := error(&pgconn.PgError{Code: "57P01", Message: "terminating connection"}), errors.New("other")
	for name, test := range map[string]struct {
		looks []error // the last one is followed by Ctrl-C
		once  bool
		want  error
		said  []string
	}{
		"an outage":           {[]error{nil, outage, outage, nil, nil, outage, nil}, false, nil, []string{"can't be reached", "reached again after 2.0s", "can't be reached", "reached again after 1.0s"}},
		"at the start":        {[]error{outage}, false, outage, nil},
		"another error":       {[]error{nil, other}, false, other, nil},
		"a single look":       {[]error{outage}, true, outage, nil},
		"stopped while it is": {[]error{nil, outage}, false, nil, []string{"can't be reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				command := &cobra.Command{}
				command.SetErr(&said)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				command.SetContext(ctx)
				n := 0
				err := follow(command, time.Second, test.once, "rows", func(ctx context.Context) (bool, error) {
					if n == len(test.looks) {
						stop()
						return false, ctx.Err()
					}
					n++
					return false, test.looks[n-1]
				})
				if !errors.Is(err, test.want) {
					t.Errorf("ends with %v, want %v", err, test.want)
				}
				lines := strings.Split(strings.TrimSpace(said.String()), "\n")
				if said.Len() == 0 {
					lines = nil
				}
				if len(lines) != len(test.said) {
					t.Fatalf("said %q, want %q", lines, test.said)
				}
				for i, want := range test.said {
					if !strings.Contains(lines[i], want) {
						t.Errorf("said %q, want %q", lines[i], want)
					}
				}
			})
		})
	}
}
