package nats

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// extent is which messages a stream had when it was looked at.
type extent struct {
	first, last     uint64
	firstAt, lastAt time.Time
	deleted         int  // between the first and the last
	lost            bool // the server could not read some of them
}

func (info streamInfo) extent() extent {
	s := info.State
	return extent{s.FirstSeq, s.LastSeq, s.FirstAt, s.LastAt, s.Deleted, s.Lost != nil}
}

// removed returns which messages the stream has removed since it was seen although it was to keep them, or "".
// A purge or a deletion removes acknowledged messages, consumed or not, on every server.
func (k mark) removed(info streamInfo) string {
	switch {
	case k.stream.IsZero() || k.replacedBy(info):
		return ""
	case info.State.Lost != nil && !k.had.lost:
		return fmt.Sprintf("stream %s has messages that its server can't read", info.Config.Name)
	case info.shared:
		return ""
	default:
		return k.gone(info)
	}
}

// unsure returns which messages a stream has removed that may have been those of others, or "". It stops no rail.
func (k mark) unsure(info streamInfo) string {
	if !info.shared || k.stream.IsZero() || k.replacedBy(info) {
		return ""
	}
	if gone := k.gone(info); gone != "" {
		return gone + ", and it has other subjects than ours, or allow_msg_ttl, so that it can't be told whether they were " +
			"ours: look them up in its consumers; what it removes later is not said"
	}
	return ""
}

// gone returns which messages the stream does not have any more, or "".
func (k mark) gone(info streamInfo) string {
	name, state, from := info.Config.Name, info.State, max(k.had.first, 1)
	switch {
	case state.FirstSeq > from && k.young(info):
		return fmt.Sprintf("messages %d to %d of stream %s were removed", from, state.FirstSeq-1, name)
	case state.Deleted > k.had.deleted:
		return fmt.Sprintf("messages were deleted between %d and %d of stream %s: %d, and %d when it was seen before",
			state.FirstSeq, state.LastSeq, name, state.Deleted, k.had.deleted)
	default:
		return ""
	}
}

// young reports whether a message that was removed first was younger than nats.keeps_for, which without a value has no
// end. It compares those whose time is known: the first and the last one of the last look, and the one that came next.
func (k mark) young(info streamInfo) bool {
	if info.keeps == 0 {
		return true
	}
	oldest := info.seen().Add(info.skew - info.keeps)
	first := info.State.FirstSeq
	return first > k.had.first && k.had.firstAt.After(oldest) || first > k.had.last && k.had.lastAt.After(oldest) ||
		first > k.newest+1 && k.at.After(oldest)
}

// boundedFrom is the first version of nats-server that compares max_bytes with what it stores. One before it compares
// the content alone, takes a message that does not fit, and removes the oldest ones for it, whatever discard says.
var boundedFrom = [3]int{2, 10, 7}

// boundsBytes reports whether a server refuses messages beyond max_bytes. One whose version can't be read may not.
func boundsBytes(version string) bool {
	numbers, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	parts := strings.Split(numbers, ".")
	if len(parts) != len(boundedFrom) {
		return false
	}
	for n, part := range parts {
		number, err := strconv.Atoi(part)
		if err != nil || number < boundedFrom[n] {
			return false
		}
		if number > boundedFrom[n] {
			return true
		}
	}
	return true
}
