package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// patienceAfter is how long a command works in silence on a terminal.
const patienceAfter = time.Second

// ownProgress marks a command that says itself how far it is, or runs until it is stopped.
const ownProgress = "own progress"

// withProgress marks a command with ownProgress.
func withProgress(command *cobra.Command) *cobra.Command {
	command.Annotations = map[string]string{ownProgress: "yes"}
	return command
}

// patienceOf says on a terminal that the command still works, until what it returns is called.
func patienceOf(cmd *cobra.Command) (stop func()) {
	file, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !isTerminal(file) || cmd.Annotations[ownProgress] != "" {
		return func() {}
	}
	return patience(file, cmd.CommandPath(), patienceAfter)
}

// patience writes a line after first, and one each time that the span since the start has
// doubled.
func patience(w io.Writer, what string, first time.Duration) (stop func()) {
	done, start := make(chan struct{}), time.Now()
	var over sync.WaitGroup
	over.Go(func() {
		for next := first; ; next *= 2 {
			select {
			case <-done:
				return
			case <-time.After(time.Until(start.Add(next))):
				fmt.Fprintf(w, "%s: at work for %s\n", what, span(next))
			}
		}
	})
	return func() {
		close(done)
		over.Wait()
	}
}
