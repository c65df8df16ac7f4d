package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// TestPatience: on a terminal a command that takes long says so, ever more seldom.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		stop := patience(&said, "railhead payment list", patienceAfter)
		time.Sleep(5 * time.Second)
		stop()
		time.Sleep(time.Minute)
		const want = "railhead payment list: at work for 1.0s\nrailhead payment list: at work for 2.0s\nrailhead payment list: at work for 4.0s\n"
		if said.String() != want {
			t.Errorf("said %q", said.String())
		}
	})
}

// TestOwnProgress: what runs until it is stopped, and what tells how far it is, is marked.
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
	for _, name := range []string{"run", "relayer", "reaper", "callbacks", "api", "dev", "log", "payment tail", "prove", "prove run", "enqueue"} {
		if path := "railhead " + name; !marked[path] {
			t.Errorf("%s is not marked: its output would be mixed with another progress", path)
		}
		delete(marked, "railhead "+name)
	}
	if len(marked) > 0 {
		t.Errorf("marked, and not listed here: %v", marked)
	}
}
