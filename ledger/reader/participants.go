package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// ListedParticipant is a participant in a list.
type ListedParticipant struct {
	ParticipantID string
	// Sequence is the number of its newest instruction in the registry, which was enqueued at NewestAt.
	Sequence int64
	NewestAt time.Time
	Waiting  int64  // its instructions among the rows of pending that were read
	Pause    *Pause // nil: none of its own
}

// ParticipantFilter selects participants. The zero value selects the first ones.
type ParticipantFilter struct {
	Prefix string // of their ids
	After  string // only ids after this one
	Limit  int    // 1 to ParticipantsListed; 0 is ParticipantsListed
}

// ParticipantList is a page of participants, in the order of their ids.
type ParticipantList struct {
	Participants []ListedParticipant
	Next         string // the After of the next page; empty: this is the last one
	// PendingCapped is set if pending has more rows than were read: each Waiting is then at least
	// that number.
	PendingCapped bool
}

// The bounds of what is read of participants.
const (
	ParticipantsListed = 50             // in one list
	PendingLooked      = 100_000        // rows of pending, of all participants
	NumbersLooked      = 1_000          // newest instructions of one participant
	VolumeWindow       = 24 * time.Hour // of the volume of one participant
	participantIDMax   = 128            // characters
)

// Participants lists participants by probes of the registry's index, and counts their instructions
// among the PendingLooked rows of pending that were enqueued first.
func (r *Reader) Participants(ctx context.Context, filter ParticipantFilter) (ParticipantList, error) {
	if filter.Limit == 0 {
		filter.Limit = ParticipantsListed
	}
	if filter.Limit < 1 || filter.Limit > ParticipantsListed || len(filter.Prefix) > participantIDMax ||
		len(filter.After) > participantIDMax {
		return ParticipantList{}, fmt.Errorf("%w: a list has 1 to %d participants, and an id at most %d characters",
			outbox.ErrUnanswerable, ParticipantsListed, participantIDMax)
	}
	list := ParticipantList{Participants: []ListedParticipant{}}
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["index_order"])
		batch.Queue(r.db.SQL["participants"], filter.Prefix, filter.After, filter.Limit+1, PendingLooked).
			Query(store.Each(list.scan))
	})
	if err != nil {
		return ParticipantList{}, fmt.Errorf("listing participants: %w", err)
	}
	if len(list.Participants) > filter.Limit {
		list.Participants = list.Participants[:filter.Limit]
		list.Next = list.Participants[filter.Limit-1].ParticipantID
	}
	return list, nil
}

func (l *ParticipantList) scan(row pgx.CollectableRow) error {
	var p ListedParticipant
	var looked int64
	var by, reason pgtype.Text
	var at, until pgtype.Timestamptz
	err := row.Scan(&p.ParticipantID, &p.Sequence, &p.NewestAt, &p.Waiting, &looked, &by, &at, &reason, &until)
	if by.Valid {
		p.Pause = &Pause{What: "participant " + p.ParticipantID, By: by.String, At: store.OrZero(at),
			Reason: reason.String, Until: store.OrZero(until)}
	}
	l.PendingCapped = looked >= PendingLooked
	l.Participants = append(l.Participants, p)
	return err
}

// Participant is what is recorded about one participant. Its numbers are those of its newest
// instructions in the registry, at most NumbersLooked.
type Participant struct {
	ParticipantID string
	// Numbers counts the sequence numbers that were read: the highest, the lowest, and those between.
	Numbers, Lowest, Highest int64
	Elsewhere                int64     // of Numbers, those given in other cells, before it was moved to this one
	Since, Until             time.Time // when the lowest and the highest were given
	Waiting                  int64     // instructions in pending
	Due                      int64     // of them, those that are due
	OutcomeUnknown           int64     // of them, those of unknown outcome
	OldestWaiting            time.Time // when the oldest one of them was enqueued; zero: none waits
	// PendingCapped is set if pending has more rows than were read: the numbers of waiting
	// instructions are then at least those.
	PendingCapped bool
	// Volume is what was enqueued within VolumeWindow, by currency. VolumeCapped is set if more was
	// enqueued than was read.
	Volume       []Volume
	VolumeCapped bool
	Pause        *Pause      // nil: none of its own
	Everything   *Pause      // nil: not everything is paused
	Gate         *ClosedGate // nil: its own gate is open
	// Heads are those of its lines on rails that order its instructions, at most ParticipantHeadsMax.
	Heads []ParticipantHead
}

// Missing counts the numbers between the lowest and the highest that no instruction has. A
// participant's numbers begin with 1 and have no gaps, so that there should be none.
func (p Participant) Missing() int64 {
	switch {
	case p.Numbers == 0:
		return 0
	case p.Numbers < NumbersLooked: // all of them were read
		return p.Highest - p.Numbers
	default:
		return p.Highest - p.Lowest + 1 - p.Numbers
	}
}

// Volume is the sum of one currency. Currency is empty for instructions whose order is recorded in
// their rows alone.
type Volume struct {
	Currency     string
	Instructions int64
	Amount       string // decimal; empty: not known
}

// Participant reads one participant. If it never enqueued anything here, or in another cell before it
// was moved to this one, the error is outbox.ErrNotFound.
func (r *Reader) Participant(ctx context.Context, participantID string) (Participant, error) {
	p := Participant{ParticipantID: participantID}
	var looked int64
	var since, until, oldest pgtype.Timestamptz
	var pauses []Pause
	var gates []ClosedGate
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["index_order"])
		batch.Queue(r.db.SQL["participant_numbers"], participantID, NumbersLooked).QueryRow(func(row pgx.Row) error {
			return row.Scan(&p.Numbers, &p.Lowest, &p.Highest, &since, &until, &p.Elsewhere)
		})
		batch.Queue(r.db.SQL["participant_waiting"], participantID, PendingLooked).QueryRow(func(row pgx.Row) error {
			return row.Scan(&looked, &p.Waiting, &p.Due, &p.OutcomeUnknown, &oldest)
		})
		batch.Queue(r.db.SQL["participant_volume"], participantID, NumbersLooked, VolumeWindow.Seconds()).
			Query(store.Collect(&p.Volume, scanVolume))
		batch.Queue(r.db.SQL["participant_order"], participantID, ParticipantHeadsMax).
			Query(store.Collect(&p.Heads, scanParticipantHead))
		batch.Queue(r.db.SQL["pause_in_force"], "*", participantID).Query(store.Collect(&pauses, scanPause))
		batch.Queue(r.db.SQL["closed_gates"], string(GateParticipant), participantID, 1).
			Query(store.Collect(&gates, scanClosedGate))
	})
	if err == nil && p.Numbers == 0 {
		err = outbox.ErrNotFound
	}
	if err != nil {
		return Participant{}, fmt.Errorf("reading participant %q: %w", store.Bound(participantID, participantIDMax), err)
	}
	p.Since, p.Until, p.OldestWaiting = store.OrZero(since), store.OrZero(until), store.OrZero(oldest)
	p.PendingCapped = looked >= PendingLooked
	var read int64
	for _, one := range p.Volume {
		read += one.Instructions
	}
	p.VolumeCapped = read >= NumbersLooked
	for n := range pauses {
		if pauses[n].What == "everything" {
			p.Everything = &pauses[n]
		} else {
			p.Pause = &pauses[n]
		}
	}
	if len(gates) > 0 {
		p.Gate = &gates[0]
	}
	return p, nil
}

func scanVolume(row pgx.CollectableRow) (Volume, error) {
	var v Volume
	err := row.Scan(&v.Currency, &v.Instructions, &v.Amount)
	if sum, err := payment.ParseAmount(v.Amount, v.Currency); err == nil {
		v.Amount = sum.Decimal()
	}
	return v, err
}
