package nats

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// streamFaults returns what in the settings of a stream removes reports that were not read.
func (r *Replies) streamFaults(c streamConfig, version string) []string {
	l := faultList{of: "stream"}
	l.refuse(c.Storage != "file", "storage is %s and forgets everything at a restart: it must be file", c.Storage)
	l.refuse(c.Replicas < r.config.Replicas, "num_replicas is %d, must be at least nats.replicas %d", c.Replicas,
		r.config.Replicas)
	l.refuse(c.Retention != "limits", "retention is %s and removes reports that were given up: it must be limits",
		c.Retention)
	l.refuse(c.Rollup, "allow_rollup_hdrs lets one message erase all others: it must be false")
	bounded := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxPerSubject > 0
	l.refuse(bounded && c.Discard != "new", "discard is %s with max_msgs, max_bytes or max_msgs_per_subject: reports "+
		"would be removed before they are read; it must be new", c.Discard)
	l.refuse(c.MaxBytes > 0 && !boundsBytes(version), "max_bytes is %d, and nats-server %s removes the oldest reports "+
		"instead of refusing those that do not fit: set it to -1, or install 2.10.7 or later", c.MaxBytes, version)
	l.refuse(c.MaxPerSubject > 0 && !c.DiscardPerSubject, "max_msgs_per_subject is %d without discard_new_per_subject, "+
		"so that older reports are removed: set it to -1", c.MaxPerSubject)
	l.refuse(c.NoAck, "no_ack is set, so that no report is acknowledged to its sender: it must be false")
	l.refuse(c.PersistMode != "" && c.PersistMode != "default",
		"persist_mode is %s and acknowledges before a report is written: it must be default", c.PersistMode)
	l.refuse(c.MaxMsgSize < 1 || c.MaxMsgSize > maxAnswer, "max_msg_size is %d: it must be 1 to %d, so that a long "+
		"message holds up no report; 131072 is enough", c.MaxMsgSize, maxAnswer)
	l.refuse(c.MaxAge > 0 && c.MaxAge < keptAtLeast, "max_age is %s: reports that old are removed although they were not "+
		"read; it must be 0, or at least %s", c.MaxAge, payment.Duration(keptAtLeast))
	return l.all
}

// consumerInfo is what a server reports about a consumer, as far as it decides about reports.
type consumerInfo struct {
	Config struct {
		Durable       string        `json:"durable_name"`
		Deliver       string        `json:"deliver_policy"`
		Ack           string        `json:"ack_policy"`
		Replay        string        `json:"replay_policy"`
		Push          string        `json:"deliver_subject"`
		Priority      string        `json:"priority_policy"`
		MaxDeliver    int           `json:"max_deliver"`
		MaxAckPending int           `json:"max_ack_pending"`
		HeadersOnly   bool          `json:"headers_only"`
		InMemory      bool          `json:"mem_storage"`
		Replicas      int           `json:"num_replicas"` // 0: as the stream
		AckWait       time.Duration `json:"ack_wait"`
		Backoff       []int64       `json:"backoff"`
		Inactive      time.Duration `json:"inactive_threshold"`
		Filter        string        `json:"filter_subject"`
		Filters       []string      `json:"filter_subjects"`
	} `json:"config"`
	// Floor is the last message up to which each was acknowledged.
	Floor struct {
		Sequence uint64 `json:"stream_seq"`
	} `json:"ack_floor"`
	Paused bool `json:"paused"`
}

// removed says once of each gap which messages are gone from the stream and were not all acknowledged before, or that
// the stream is another one; nil: there is nothing to say. The consumer was looked at after the stream. With a filter
// it acknowledges none of other subjects, and it can't be known whether one of its own is gone.
func (r *Replies) removed(s streamInfo, i consumerInfo) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	another := !r.created.IsZero() && !r.created.Equal(s.Created)
	if !r.created.Equal(s.Created) {
		r.created, r.gone = s.Created, 0
	}
	from := max(i.Floor.Sequence, r.gone) + 1
	switch {
	case another:
		r.gone = max(s.State.FirstSeq, 1) - 1
		return fmt.Errorf("stream %s was made anew at %s: what the one before it had and was not read may be lost",
			r.config.Replies.Stream, s.Created.UTC().Format(time.RFC3339))
	case s.State.FirstSeq <= from || !i.reads(s.Config.Subjects):
		return nil
	}
	r.gone = s.State.FirstSeq - 1
	return fmt.Errorf("messages %d to %d of stream %s were removed before consumer %s had acknowledged them all",
		from, r.gone, r.config.Replies.Stream, r.config.Replies.Consumer)
}

// reads reports whether a consumer reads all subjects of its stream.
func (i consumerInfo) reads(subjects []string) bool {
	filters := i.Config.Filters
	if i.Config.Filter != "" {
		filters = append(filters, i.Config.Filter)
	}
	for _, subject := range subjects {
		if len(filters) > 0 && !slices.Contains(filters, subject) && !slices.Contains(filters, ">") {
			return false
		}
	}
	return true
}

// Bounds of the time for which a consumer waits for an acknowledgement.
const ackWaitLeast, ackWaitMost = 30 * time.Second, 10 * time.Minute

// faults returns what in the settings of a consumer loses reports or holds them up.
func (i consumerInfo) faults(replicas int) []string {
	c, l := i.Config, faultList{of: "consumer"}
	l.refuse(c.Durable == "", "durable_name is empty: it must be durable, or it forgets what was read")
	l.refuse(c.Ack != "explicit", "ack_policy is %s: it must be explicit, or reports that are not recorded are lost",
		c.Ack)
	l.refuse(c.MaxDeliver > 0, "max_deliver is %d: it must be -1, or reports are lost while the database is away",
		c.MaxDeliver)
	l.refuse(c.MaxAckPending > 0, "max_ack_pending is %d: it must be -1, or as many that are not ours hold up all others",
		c.MaxAckPending)
	l.refuse(c.AckWait < ackWaitLeast || c.AckWait > ackWaitMost, "ack_wait is %s: it must be %s to %s, so that a report "+
		"which is being recorded is not delivered again, and one that a dead process had soon is", c.AckWait, ackWaitLeast,
		ackWaitMost)
	l.refuse(len(c.Backoff) > 0, "backoff is set, by which reports that are not recorded come too late or at once: it "+
		"must be empty")
	l.refuse(c.InMemory, "mem_storage is true: it must be false, or a restart forgets what was read")
	l.refuse(c.Replicas > 0 && c.Replicas < replicas, "num_replicas is %d, must be 0 or at least nats.replicas %d",
		c.Replicas, replicas)
	l.refuse(c.HeadersOnly, "headers_only is true: it must be false, or no report has a content")
	l.refuse(c.Deliver == "new" || strings.HasPrefix(c.Deliver, "last"),
		"deliver_policy is %s, which skips reports: it must be all, or begin at a sequence or a time", c.Deliver)
	l.refuse(c.Replay == "original", "replay_policy is original, which waits as long as there was between reports: it "+
		"must be instant")
	l.refuse(c.Push != "", "deliver_subject is set: it must be a pull consumer")
	l.refuse(c.Priority != "" && c.Priority != "none", "priority_policy is %s: it must be none", c.Priority)
	l.refuse(c.Inactive > 0, "inactive_threshold is %s: it must be 0, or the server removes it while no callback "+
		"endpoint runs, with what it knows of reports that were taken", c.Inactive)
	l.refuse(i.Paused, "pause_until is in the future: resume it")
	return l.all
}

// faultList are faults of the settings of a stream or a consumer, each with what to change.
type faultList struct {
	of  string
	all []string
}

func (l *faultList) refuse(wrong bool, format string, args ...any) {
	if wrong {
		l.all = append(l.all, "the "+l.of+"'s "+fmt.Sprintf(format, args...))
	}
}
