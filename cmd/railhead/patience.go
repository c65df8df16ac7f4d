package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// patienceAfter is how long a command runs on a terminal before it reports that it does.
const patienceAfter = time.Second

// ownProgress marks a command that reports its own progress, or runs until it is stopped.
const ownProgress = "own progress"

// withProgress marks a command with ownProgress.
func withProgress(command *cobra.Command) *cobra.Command {
	command.Annotations = map[string]string{ownProgress: "yes"}
	return command
}

// patienceOf reports on a terminal that the command still runs, until stop is called.
func patienceOf(cmd *cobra.Command) (stop func()) {
	file, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !isTerminal(file) || cmd.Annotations[ownProgress] != "" {
		return func() {}
	}
	return patience(file, cmd.CommandPath(), patienceAfter)
}

// patience writes a line after first, and one each time that the time since the start has
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
				fmt.Fprintf(w, "%s: running for %s\n", what, span(next))
			}
		}
	})
	return func() {
		close(done)
		over.Wait()
	}
}
