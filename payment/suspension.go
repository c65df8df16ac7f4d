package payment

import "time"

// Suspension is a time in which the database may have forgotten what was committed,
// from when a service noticed until an operator had compared with the rails, as far as
// the rules have to know it: Weigh takes it. What else is known of it is of package outbox.
type Suspension struct {
	// KnownUntil is the newest moment that the data knows from before: what was
	// sent after it may be forgotten. The Unix epoch: it is not known.
	KnownUntil time.Time
	OpenedAt   time.Time // also when a later start of the server took it over
	AcceptedAt time.Time // zero: it is open
	// DoubtedUntil is how long after its end callers may repeat calls that were
	// forgotten; it has no meaning while the suspension is open.
	DoubtedUntil time.Time
}

// Open reports whether no operator has ended it.
func (s Suspension) Open() bool { return s.AcceptedAt.IsZero() }

// Weigh adds to a claim what suspensions say of the sends that its rows do not
// know. While one is open, some send may have been made since KnownUntil: what is
// sent now counts as a re-send whose first send was then. Once it
// has ended, an operator has compared what was known here; what remains is that
// the key window of a send made meanwhile may have begun at KnownUntil, and that a
// caller may repeat a call that was forgotten, so that the rail knows its key, if its
// window is not over. The suspensions come newest first.
//
// How long the rail has been busy is counted from the end of the last one: a lane that was
// held has not asked.
func (c Claim) Weigh(suspensions []Suspension) Claim {
	c.Gaps = nil
	for _, s := range suspensions {
		if s.Open() || c.CreatedAt.Before(s.DoubtedUntil) {
			if !c.MaybeSent || s.KnownUntil.Before(c.ForgottenSince) {
				c.ForgottenSince = s.KnownUntil
			}
			c.MaybeSent = true
			c.Gaps = append(c.Gaps, Gap{s.KnownUntil, s.OpenedAt})
			// What was forgotten was sent before the suspension: an inquiry that asks
			// too early after it proves nothing.
			if c.LastSentAt.Before(s.OpenedAt) && (s.Open() || !c.LastSentAt.IsZero()) {
				c.LastSentAt = s.OpenedAt
			}
		}
		switch {
		case s.Open():
			c.Doubted = true
			if c.FirstSentAt.IsZero() || c.FirstSentAt.After(s.KnownUntil) {
				c.FirstSentAt = s.KnownUntil
			}
		case c.FirstSentAt.After(s.KnownUntil) && c.FirstSentAt.Before(s.AcceptedAt):
			c.FirstSentAt = s.KnownUntil
		}
		if !c.BusySince.IsZero() && c.BusySince.Before(s.AcceptedAt) {
			c.BusySince = s.AcceptedAt
		}
	}
	return c
}

// SendNo counts the send that this claim makes, from 1, among those that may have
// reached the rail. It is 1 only where it is provably the first: counters begin
// anew with a replay, and rows may be missing after a restore.
func (c Claim) SendNo() int {
	if c.MaybeSent || !c.FirstSentAt.IsZero() {
		return max(c.SendCount+1, 2)
	}
	return c.SendCount + 1
}
