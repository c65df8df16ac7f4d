package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

const answerPiece = 4 << 10 // bytes of one write

// answers are the lines of a batch's answer that its caller has not taken yet. Many clients write the whole body
// before they read, so lines are read and stored on while none is taken: there are no more of them than lines, at most
// batchLinesMax of some hundred bytes each. How long the caller takes counts once the body was read, and in any case
// from the end of the batch on.
type answers struct {
	control *http.ResponseController
	idleMax time.Duration // without space for an answer
	until   time.Time     // the end of the batch
	changed chan struct{} // after each change

	mu     sync.Mutex
	text   []byte // to be written
	ended  bool   // no line follows
	read   bool   // the body was read, or is not read any more
	failed error  // of the write that was the last one
}

func newAnswers(control *http.ResponseController, idleMax time.Duration, until time.Time) *answers {
	return &answers{control: control, idleMax: idleMax, until: until, changed: make(chan struct{}, 1)}
}

// add adds lines, and reports whether they may still be sent.
func (a *answers) add(lines ...batchLine) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range lines {
		text, err := json.Marshal(line)
		if err == nil { // batchLine has no value that can't be encoded
			a.text = append(append(a.text, text...), '\n')
		}
	}
	a.notify()
	return a.failed == nil
}

// end says that nothing more is added.
func (a *answers) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.notify()
}

func (a *answers) notify() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// bodyRead notes that the body was read: from now on the caller has nothing to do but take its answers.
func (a *answers) bodyRead() {
	a.mu.Lock()
	a.read = true
	a.mu.Unlock()
	a.extend()
}

// extend sets until when the write under way, and the next one, may take.
func (a *answers) extend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	until := a.until.Add(a.idleMax)
	if soon := time.Now().Add(a.idleMax); a.read && soon.Before(until) {
		until = soon
	}
	a.control.SetWriteDeadline(until) //nolint:errcheck // without deadlines the server has its own
}

// deliver writes what is added, and returns after all of it, or with the error of a write.
func (a *answers) deliver(w http.ResponseWriter) error {
	for range a.changed {
		a.mu.Lock()
		text, ended := a.text, a.ended
		a.text = nil
		a.mu.Unlock()
		if err := a.write(w, text); err != nil {
			a.mu.Lock()
			a.failed = err
			a.mu.Unlock()
			return err
		}
		if ended {
			break
		}
	}
	return nil
}

func (a *answers) write(w http.ResponseWriter, text []byte) error {
	for len(text) > 0 {
		piece := text[:min(len(text), answerPiece)]
		text = text[len(piece):]
		a.extend()
		if _, err := w.Write(piece); err != nil {
			return err //nolint:wrapcheck // it is logged with what was done
		}
	}
	if err := a.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err //nolint:wrapcheck // likewise
	}
	return nil
}
