package secret

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// readWithin is how long a file may take to be read: a pipe that has no writer, or a disk that hangs, does not answer.
const readWithin = 2 * time.Second

// unanswered has the reads of files that are under way, by path. A read can't be ended from outside: while one is not
// answered no other one of its path begins, so that a file that is tried again and again holds one thread.
var unanswered struct {
	sync.Mutex
	reads map[string]*read
}

type read struct {
	begun time.Time
	over  chan struct{} // closed once text and err are set
	text  []byte
	err   error
}

// readFile returns what a file holds, at most maxSecret bytes, or an error after readWithin.
func readFile(path string) ([]byte, error) {
	one := begin(path)
	left := time.NewTimer(time.Until(one.begun.Add(readWithin)))
	defer left.Stop()
	select {
	case <-one.over:
		return one.text, one.err
	case <-left.C:
		return nil, fmt.Errorf("it has not answered for %s: it is a pipe without a writer, or its disk hangs",
			time.Since(one.begun).Round(time.Second))
	}
}

// begin begins to read a file, or returns the read of it that is under way.
func begin(path string) *read {
	unanswered.Lock()
	defer unanswered.Unlock()
	if one := unanswered.reads[path]; one != nil {
		return one
	}
	if unanswered.reads == nil {
		unanswered.reads = make(map[string]*read)
	}
	one := &read{begun: time.Now(), over: make(chan struct{})}
	unanswered.reads[path] = one
	go func() {
		one.text, one.err = readAtMost(path)
		unanswered.Lock()
		delete(unanswered.reads, path)
		unanswered.Unlock()
		close(one.over)
	}()
	return one
}

func readAtMost(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err == nil && len(text) > maxSecret {
		err = fmt.Errorf("longer than %d bytes", maxSecret)
	}
	return text, err
}
