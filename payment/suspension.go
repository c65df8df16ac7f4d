package payment

import "time"

// Suspension is a time in which the database may have lost committed rows: from when a
// service noticed it until an operator had compared with the rails. A send whose rows are
// lost is called forgotten. Suspension has the fields that Claim.Weigh needs;
// outbox.Suspension has the others.
type Suspension struct {
	// KnownUntil is the newest moment before it that is recorded: sends after that may be
	// lost. The Unix epoch: it is not known.
	KnownUntil time.Time
	OpenedAt   time.Time // updated if a later start of the server took it over
	AcceptedAt time.Time // zero: it is open
	// DoubtedUntil is until when callers may repeat calls that were lost. It has no meaning
	// while the suspension is open.
	DoubtedUntil time.Time
}

// Open reports whether no operator has ended the suspension.
func (s Suspension) Open() bool { return s.AcceptedAt.IsZero() }

// Weigh adds to a claim the sends that, by the suspensions, may have been made without a
// row. The suspensions are in order, newest first.
//
// While a suspension is open, a send may have been made since KnownUntil, and the next
// one counts as a re-send whose first send was then. After it has ended, an operator has
// compared the recorded payments with the rails. Two doubts remain: the key window of a
// send made during it may have begun at KnownUntil; and a caller may repeat a call that
// was lost, so that the rail already has its key, within the key window.
//
// BusySince becomes at least the end of the last suspension: a suspended lane sends and
// asks nothing.
func (c Claim) Weigh(suspensions []Suspension) Claim {
	c.Gaps = nil
	for _, s := range suspensions {
		if s.Open() || c.CreatedAt.Before(s.DoubtedUntil) {
			if !c.MaybeSent || s.KnownUntil.Before(c.ForgottenSince) {
				c.ForgottenSince = s.KnownUntil
			}
			c.MaybeSent = true
			c.Gaps = append(c.Gaps, Gap{s.KnownUntil, s.OpenedAt})
			// A lost send was made before the suspension: an inquiry too soon after that
			// proves nothing.
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

// SendNo returns the number of the send that this claim makes, from 1, among those that
// may have reached the rail. It is 1 only if that send is provably the first: a replay
// resets the counters, and rows may be missing after a restore.
func (c Claim) SendNo() int {
	if c.MaybeSent || !c.FirstSentAt.IsZero() {
		return max(c.SendCount+1, 2)
	}
	return c.SendCount + 1
}
