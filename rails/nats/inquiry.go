package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Inquire implements rails.Inquirer: it reads the message of the payment's subject from the leader of
// the stream. EXECUTED means that key, subject and content are ours. NOT_FOUND means that the stream
// has nothing of that subject, which the sends had too, has been there since before the first send and has
// removed nothing since, and that a majority of its servers follow the one that says so.
func (a *Asking) Inquire(ctx context.Context, q rails.Inquiry) rails.Result {
	result := a.inquire(ctx, q)
	result.Message, result.Loss = a.clean(result.Message), a.seen.told()
	return result
}

func (a *Asking) inquire(parent context.Context, q rails.Inquiry) rails.Result {
	if a.sentElsewhere(q.RenderVersion) {
		return rails.Result{Result: payment.ResultUnavailable, OwnStop: true,
			Message: "sent by " + q.RenderVersion + " and not asked by " + a.version +
				": another stream does not have the payment"}
	}
	ctx, cancel := context.WithTimeout(parent, a.timeouts.Total())
	defer cancel()
	c, failure := a.take(ctx, parent, false, q.FirstSentAt)
	if failure != nil {
		if failure.Result == payment.ResultRefusedRail { // which is a result of sends alone
			failure.Result = payment.ResultUnavailable
		}
		return *failure
	}
	if q.OnPhase != nil {
		q.OnPhase(rails.PhaseDialled)
		q.OnPhase(rails.PhaseFirstByte)
	}
	unavailable := func(why string) rails.Result {
		return rails.Result{Result: payment.ResultUnavailable, FirstByte: true, Message: why,
			OwnStop: errors.Is(parent.Err(), context.Canceled)}
	}
	subject := a.rules.subject.of(q.ParticipantID, q.RailKey)
	kept, err := a.find(ctx, c, fmt.Sprintf(`{"last_by_subj":%q}`, subject))
	if err != nil {
		c.abort()
		return unavailable("reading the stream: " + err.Error())
	}
	if q.OnPhase != nil {
		q.OnPhase(rails.PhaseAnswered)
	}
	if kept != nil {
		a.keep(c)
		if differs := a.differs(kept, q.ParticipantID, q.RailKey, q.Payload); differs != "" {
			return unavailable(fmt.Sprintf("message %d of the stream has another %s", kept.Sequence, differs))
		}
		return rails.Result{Result: payment.ResultExecuted, FirstByte: true, Reference: a.reference(kept.Sequence)}
	}
	if a.formChanged(q.RenderVersion) {
		a.keep(c)
		result := unavailable("sent by " + q.RenderVersion + " and asked by " + a.version +
			": it may have had another subject, so that the stream has no message of this one proves nothing")
		result.OwnStop = true // the stream is well
		return result
	}
	info, err := a.look(ctx, c, subject)
	if err != nil {
		c.abort()
		return unavailable(err.Error())
	}
	a.keep(c)
	if why := a.disproves(info, c.version, subject, q.FirstSentAt); why != "" {
		return unavailable("the stream has no such message, which proves nothing: " + why)
	}
	return rails.Result{Result: payment.ResultNotFound, FirstByte: true}
}

// disproves returns why a stream that says it has no message of a subject may have had one, or "".
func (a *Asking) disproves(info streamInfo, version, subject string, since time.Time) string {
	if info.State.Subjects[subject] > 0 {
		return "it lists its subject; a message that it can't read is reported as none"
	}
	if faults := a.rules.faults(info.Config, version); len(faults) > 0 {
		return strings.Join(faults, "; ")
	}
	if why := info.leads(); why != "" {
		return why
	}
	why, _ := a.rules.remembers(info, since)
	return why
}

// sentElsewhere reports whether sends of an earlier version went to another destination.
func (r *Rail) sentElsewhere(earlier string) bool {
	parts, own := strings.Split(earlier, "-"), strings.Split(r.version, "-")
	return len(parts) == 3 && parts[2] != own[2]
}

// formChanged reports whether sends of an earlier version may have had another subject than this rail's have: a
// version shows whether the form of messages is the same, and not what in it differs. One that isn't known leaves that
// open.
func (r *Rail) formChanged(earlier string) bool {
	parts, own := strings.Split(earlier, "-"), strings.Split(r.version, "-")
	return earlier != "" && !slices.Equal(parts[:min(2, len(parts))], own[:2])
}
