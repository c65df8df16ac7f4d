package nats

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// memory is what a process has seen of a stream. A rail that is opened anew goes on with it. A stream that was
// restored from a copy keeps its time of creation, and has forgotten its newest messages.
type memory struct {
	mu sync.Mutex
	mark
	wentBack string // what the stream was found to have lost; empty: nothing
}

// mark is how far the latest stream of a name was seen to have come.
type mark struct {
	created time.Time // zero: none was seen
	newest  uint64    // the highest sequence that it had
}

// lossError says that a stream does not have all messages that it had.
type lossError struct {
	why  string
	loss string // as rails.Result.Loss
}

func (e *lossError) Error() string { return e.why }

// lossOf returns what was found to be lost by the call that has failed so, as rails.Result.Loss.
func lossOf(err error) string {
	if lost, ok := errors.AsType[*lossError](err); ok {
		return lost.loss
	}
	return ""
}

// known returns how far the stream was seen to have come, and what it was found to have lost; empty: nothing.
func (m *memory) known() (seen mark, wentBack string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark, m.wentBack
}

// trusts reports whether a connection that knows a stream by its time of creation may be used without another look
// at it: no later stream was seen, and nothing was found to be lost.
func (m *memory) trusts(created time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return created.Equal(m.created) && m.wentBack == ""
}

// looked records how far a stream has come. Before is what was known when it was asked. The error is a *lossError
// if the stream has lost messages, now or in an earlier call: however far it comes then, only a stream that was
// created later is another one. A leader that others may have replaced proves no loss, and is refused alone.
func (m *memory) looked(before mark, info streamInfo) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	why, loss := before.missing(info), ""
	switch {
	case why == "" && info.Created.After(m.created):
		m.mark, m.wentBack = mark{info.Created, info.State.LastSeq}, ""
	case why == "" && info.Created.Equal(m.created):
		m.newest = max(m.newest, info.State.LastSeq)
	case why != "" && info.leads() == "" && before.created.Equal(m.created):
		loss = m.found(why)
	}
	switch {
	case m.wentBack != "":
		return &lossError{m.wentBack, loss}
	case why != "":
		return &lossError{why, ""}
	default:
		return nil
	}
}

// missing returns what a stream does not have that was seen before, or "".
func (k mark) missing(info streamInfo) string {
	switch name, created := info.Config.Name, info.Created; {
	case created.Before(k.created):
		return fmt.Sprintf("stream %s was created on %s, and one that was created on %s was there before", name,
			day(created), day(k.created))
	case created.Equal(k.created) && info.State.LastSeq < k.newest:
		return fmt.Sprintf("stream %s ends with message %d and had %d", name, info.State.LastSeq, k.newest)
	default:
		return ""
	}
}

func day(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// acknowledged records the acknowledgement of a message. Before is what was known when the message was written,
// and created is of the stream that its connection knows: of an earlier one it proves nothing. Only a stream
// that has lost messages gives a number that is not above those that it had. It returns what the stream was found to
// have lost, in any call; loss is as rails.Result.Loss.
func (m *memory) acknowledged(stream string, before mark, created time.Time, sequence uint64) (wentBack, loss string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if created.Equal(m.created) {
		if sequence <= before.newest {
			loss = m.found(fmt.Sprintf("stream %s went back from message %d to %d", stream, before.newest, sequence))
		}
		m.newest = max(m.newest, sequence)
	}
	return m.wentBack, loss
}

// found remembers what the stream has lost, and returns it if nothing was known to be lost.
func (m *memory) found(why string) (loss string) {
	if m.wentBack != "" {
		return ""
	}
	m.wentBack = why + ": it has lost payments; resolve those by hand, and start this process again"
	return m.wentBack
}
