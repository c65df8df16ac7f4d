package nats

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// memory is what a process has seen of a stream. A rail that is opened anew goes on with it. A stream that was put
// back has forgotten its newest messages: rolled back with its disks it keeps its time of creation, and restored from
// a copy it has that of the restore, about which its servers differ.
type memory struct {
	mu sync.Mutex
	mark
	doubted  bool   // it has removed messages that may have been those of others, which is said once
	wentBack string // what the stream was found to have lost; empty: nothing
	untold   string // what was found to be lost and no call has returned yet; empty: nothing
}

// mark is how far the latest stream of a name was seen to have come.
type mark struct {
	stream  time.Time // which one it is: its time of creation, as it was seen first; zero: none was seen
	created time.Time // the latest time of creation that it was seen with
	newest  uint64    // the highest sequence that it had
	copied  bool      // it was seen to be a copy: its original, which was created earlier, may be what is put back next
	at      time.Time // when it was looked at last, by the clock of its server if that was told
	had     extent    // which messages it had then
}

// lossError says what a stream has lost.
type lossError string

func (e lossError) Error() string { return string(e) }

// known returns how far the stream was seen to have come, and what it was found to have lost; empty: nothing.
func (m *memory) known() (seen mark, wentBack string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark, m.wentBack
}

// trusts reports whether a connection that knows a stream may be used without another look at it: no other stream was
// seen, and nothing was found to be lost.
func (m *memory) trusts(stream time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return stream.Equal(m.stream) && m.wentBack == ""
}

// looked records how far a stream has come, and returns which one it is. Before is what was known when it was asked.
// The error is a lossError if the stream has lost messages, now or in an earlier call: however far it comes then, only
// one that was created anew is another stream. A leader that others may have replaced proves no loss: it is refused
// alone, by another error.
func (m *memory) looked(before mark, info streamInfo) (stream time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	why, stream := before.missing(info), info.Created
	same := before.stream.Equal(m.stream) || stream.Equal(m.stream) || stream.Equal(m.created)
	switch {
	case why == "" && (m.stream.IsZero() || m.replacedBy(info)):
		m.begin(info)
	case why == "" && same:
		stream = m.stream
		m.doubt(before.unsure(info))
		if !info.seen().Before(m.at) {
			m.had = info.extent()
		}
		m.newest, m.copied = max(m.newest, info.State.LastSeq), m.copied || info.copied()
		m.created, m.at = later(m.created, info.Created), later(m.at, info.seen())
	case why != "" && info.leads() == "" && before.stream.Equal(m.stream):
		m.found(why)
	}
	switch {
	case m.wentBack != "":
		return stream, lossError(m.wentBack)
	case why == "":
		return stream, nil
	}
	if alone := info.leads(); alone != "" {
		why += ": " + alone
	}
	return stream, errors.New(why)
}

// begin goes on with a stream that was created anew. If it ends before the one that was there, that is told.
func (m *memory) begin(info streamInfo) {
	if last := info.State.LastSeq; last < m.newest && m.wentBack == "" {
		m.untold = fmt.Sprintf("stream %s was created anew on %s and ends with message %d; the one before it had %d: "+
			"resolve by hand the payments that its consumers had not read", info.Config.Name, day(info.Created), last,
			m.newest)
	}
	m.doubted = false
	m.mark, m.wentBack = mark{
		info.Created, info.Created, info.State.LastSeq, info.copied(), info.seen(), info.extent(),
	}, ""
}

// missing returns what a stream does not have that was seen before, or "".
func (k mark) missing(info streamInfo) string {
	switch name := info.Config.Name; {
	case k.isAfter(info):
		return fmt.Sprintf("stream %s was created on %s, and one that was created on %s was there before", name,
			day(info.Created), day(k.stream))
	case k.isCopy(info):
		return fmt.Sprintf("stream %s was created on %s, and one that was created on %s was there on %s: it is another one, "+
			"or a copy, which may lack messages", name, day(info.Created), day(k.created), day(k.at))
	case info.State.LastSeq < k.newest && !k.replacedBy(info):
		return fmt.Sprintf("stream %s ends with message %d and had %d", name, info.State.LastSeq, k.newest)
	default:
		return k.removed(info)
	}
}

// replacedBy reports whether a stream was created anew since: later, after the last look at the one before it, and it
// is no copy.
func (k mark) replacedBy(info streamInfo) bool {
	return info.Created.After(k.created) && info.original() && !k.wasThere(info)
}

// isCopy reports whether a stream that is in the place of the one that was seen was there with it: a mirror of it, say,
// in another cluster. A stream that was created hardly later may be the same, as another of its servers says.
func (k mark) isCopy(info streamInfo) bool {
	return info.Created.After(k.created.Add(info.spread())) && k.wasThere(info)
}

// wasThere reports whether a stream was created before the last look at the one that was seen.
func (k mark) wasThere(info streamInfo) bool { return info.Created.Before(k.at.Add(-info.skew)) }

// uploadTime bounds by how much the servers of a stream may differ about when it was restored from a copy: some say
// when that began, and some when all of it was read.
const uploadTime = 24 * time.Hour

// isAfter reports whether what was seen is later than a stream, which was there before. One that may be a copy is what
// was seen, put back, unless it was restored long before. After a copy its original is none: a server of either may
// lead.
func (k mark) isAfter(info streamInfo) bool {
	return !k.copied && info.Created.Before(k.stream.Add(-info.spread()))
}

// spread is by how much the servers of a stream may differ about when it was created.
func (info streamInfo) spread() time.Duration {
	by := info.skew
	if !info.original() {
		by = max(by, uploadTime)
	}
	return by
}

// copied reports whether a stream has messages that are older than itself: it was restored from a copy.
func (info streamInfo) copied() bool {
	return info.State.Messages > 0 && info.State.FirstAt.Before(info.Created.Add(-info.skew))
}

// original reports whether a stream has its first message still, or had none yet, and is no copy. One that has removed
// its first messages may be a copy that has removed those which are older than itself.
func (info streamInfo) original() bool { return info.State.FirstSeq <= 1 && !info.copied() }

// seen is when a server answered about a stream, by its own clock, or at the earliest when it was asked.
func (info streamInfo) seen() time.Time {
	if info.At.IsZero() {
		return info.asked
	}
	return info.At
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func day(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// acknowledged records the acknowledgement of a message. Before is what was known when the message was written,
// and stream is the one that its connection knows: of an earlier one it proves nothing. Only a stream that has lost
// messages gives a number that is not above those that it had. It returns what the stream was found to have lost, in
// any call.
func (m *memory) acknowledged(name string, before mark, stream time.Time, sequence uint64) (wentBack string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if stream.Equal(m.stream) {
		if sequence <= before.newest {
			m.found(fmt.Sprintf("stream %s went back from message %d to %d", name, before.newest, sequence))
		}
		m.newest = max(m.newest, sequence)
	}
	return m.wentBack
}

// found remembers what the stream has lost, unless something was known to be lost.
func (m *memory) found(why string) {
	if m.wentBack == "" {
		m.wentBack = why + ": it has lost payments; resolve those by hand, and start this process again"
		m.untold = m.wentBack
	}
}

// doubt makes the next call say what the stream has removed that may not have been ours.
func (m *memory) doubt(what string) {
	if what != "" && !m.doubted && m.untold == "" {
		m.doubted, m.untold = true, what
	}
}

// told returns what was found to be lost, as rails.Result.Loss, to the first call that asks.
func (m *memory) told() (loss string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	loss, m.untold = m.untold, ""
	return loss
}
