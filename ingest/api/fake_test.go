package api_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// aToken is the token of a fakeStore.
const aToken = "rht_a-token-of-the-tests"

// fakeStore is a ledger in memory, whose calls fail as a test says.
type fakeStore struct {
	mu      sync.Mutex
	token   outbox.Token
	known   map[string]outbox.Tracked // by idempotency key
	bodies  map[string]string
	got     []outbox.Entrusted
	batches int
	most    map[string]int // lines of a participant that its cell takes in one call; of "": lines of all
	fails   func(call string) error
	rests   chan struct{} // closed: what is awaited rests
	noted   map[[32]byte][2]int64
	feed    []payment.Event
	looks   int
	places  int           // the most places of the present read
	slow    time.Duration // how long the answer to a read takes to come
}

func newFake() *fakeStore {
	return &fakeStore{
		token: outbox.Token{
			ID: "0011223344556677", Participants: []string{"p1"}, Verbs: []string{"ENQUEUE", "READ", "CANCEL"},
			ExpiresAt: time.Now().Add(time.Hour), InForce: true,
		},
		known: map[string]outbox.Tracked{}, bodies: map[string]string{}, rests: make(chan struct{}),
		noted: map[[32]byte][2]int64{},
	}
}

func (f *fakeStore) fail(call string) error {
	if f.fails == nil {
		return nil
	}
	return f.fails(call)
}

func (f *fakeStore) Token(_ context.Context, digest [32]byte) (outbox.Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("token"); err != nil {
		return outbox.Token{}, err
	}
	if digest != outbox.TokenDigest(aToken) {
		return outbox.Token{}, outbox.ErrToken
	}
	return f.token, nil
}

func (f *fakeStore) Enqueue(_ context.Context, _ outbox.Bearer, in outbox.Entrusted) (payment.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.enqueue(in)
}

func (f *fakeStore) enqueue(in outbox.Entrusted) (payment.Receipt, error) {
	if err := f.fail("enqueue"); err != nil {
		return payment.Receipt{}, err
	}
	f.got = append(f.got, in)
	if !slices.Contains(f.token.Participants, in.ParticipantID) {
		return payment.Receipt{}, &outbox.Fault{SQLState: outbox.StateForbidden,
			Message: "the token is not for this participant", Field: "token", Rule: "PARTICIPANT"}
	}
	if there, ok := f.known[in.IdempotencyKey]; ok {
		if f.bodies[in.IdempotencyKey] != string(in.Payload) {
			return payment.Receipt{}, &outbox.Fault{SQLState: outbox.StateConflict, Message: "other content",
				Field: "idempotency_key", Rule: "SAME_CONTENT"}
		}
		differs := []string{}
		if there.OnBehalfOf != in.OnBehalfOf {
			differs = append(differs, "on_behalf_of")
		}
		return payment.Receipt{OutboxID: there.OutboxID, SequenceID: there.SequenceID, State: there.State,
			Replayed: true, Differs: differs}, nil
	}
	made := outbox.Tracked{
		Status: payment.Status{OutboxID: payment.NewID(), SequenceID: int64(len(f.known) + 1), State: "PENDING",
			Certainty: "NOT_SENT"},
		InstructionID: in.InstructionID, ParticipantID: in.ParticipantID, IdempotencyKey: in.IdempotencyKey,
		OnBehalfOf: in.OnBehalfOf,
	}
	f.known[in.IdempotencyKey], f.bodies[in.IdempotencyKey] = made, string(in.Payload)
	return payment.Receipt{OutboxID: made.OutboxID, SequenceID: made.SequenceID, State: made.State}, nil
}

func (f *fakeStore) EnqueueBatch(
	_ context.Context, _ outbox.Bearer, all []outbox.Entrusted,
) ([]outbox.ReceiptOrFault, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches++
	if err := f.fail("batch"); err != nil {
		return nil, err
	}
	results := make([]outbox.ReceiptOrFault, len(all))
	lines, refused := map[string]int{}, 0
	if most := f.most[""]; most > 0 && len(all) > most {
		return nil, &outbox.Fault{SQLState: outbox.StateTooLarge, Message: "a batch holds too many items"}
	}
	for _, in := range all {
		lines[in.ParticipantID]++
	}
	for n, in := range all {
		if most := f.most[in.ParticipantID]; most > 0 && lines[in.ParticipantID] > most {
			results[n].Fault = &outbox.Fault{SQLState: outbox.StateTooLarge, Message: "a batch holds too many items"}
			if refused++; refused == len(all) {
				return nil, results[n].Fault
			}
			continue
		}
		receipt, err := f.enqueue(in)
		results[n].Receipt = receipt
		if fault, ok := errors.AsType[*outbox.Fault](err); ok {
			results[n].Fault = fault
		}
	}
	return results, nil
}

func (f *fakeStore) find(id payment.ID) (outbox.Tracked, error) {
	for _, each := range f.known {
		if each.OutboxID == id {
			return each, nil
		}
	}
	return outbox.Tracked{}, outbox.ErrNotFound
}

func (f *fakeStore) Status(_ context.Context, _ outbox.Bearer, id payment.ID) (outbox.Tracked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("status"); err != nil {
		return outbox.Tracked{}, err
	}
	return f.find(id)
}

func (f *fakeStore) Await(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error) {
	last, err := f.Status(ctx, who, id)
	if err != nil {
		return last, err
	}
	select {
	case <-f.rests:
		last.State, last.Certainty = "DISPATCHED", "ACCEPTED"
		return last, nil
	case <-ctx.Done():
		return last, ctx.Err()
	}
}

func (f *fakeStore) List(_ context.Context, _ outbox.Bearer, page outbox.Page) ([]outbox.Tracked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []outbox.Tracked
	for n := page.After + 1; len(all) < page.Most; n++ {
		found := false
		for _, each := range f.known {
			if each.SequenceID == n && each.ParticipantID == page.ParticipantID {
				all, found = append(all, each), true
			}
		}
		if !found {
			break
		}
	}
	return all, nil
}

func (f *fakeStore) Attempts(context.Context, outbox.Bearer, payment.ID, int, int) ([]outbox.ArchiveRow, error) {
	return []outbox.ArchiveRow{{AttemptNo: 1, State: "DISPATCHING", ClaimedAt: time.Now()}}, f.fail("attempts")
}

func (f *fakeStore) Cancel(
	_ context.Context, _ outbox.Bearer, id payment.ID, _ string,
) (outbox.Tracked, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, err := f.find(id)
	if err != nil || found.State == "CANCELLED" {
		return found, err == nil, err
	}
	if found.State != "PENDING" {
		return outbox.Tracked{}, false, &outbox.Fault{SQLState: outbox.StateNotAllowed,
			Message: "the instruction is " + found.State + " and can't be cancelled"}
	}
	found.State = "CANCELLED"
	f.known[found.IdempotencyKey] = found
	return found, false, nil
}

func (f *fakeStore) NoteUses(_ context.Context, tokens [][32]byte, uses, refused []int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, digest := range tokens {
		was := f.noted[digest]
		f.noted[digest] = [2]int64{was[0] + uses[n], was[1] + refused[n]}
	}
	return nil
}

// happens adds an event to the feed.
func (f *fakeStore) happens(participant string, what payment.EventType) payment.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := payment.Event{
		AttemptID: payment.NewID(), Type: what, OutboxID: payment.NewID(), InstructionID: "i", ParticipantID: participant,
		SequenceID: int64(len(f.feed) + 1), AttemptNo: 2,
		State: payment.Dispatched, CreatedAt: time.Now(), RailType: "bank",
	}
	f.feed = append(f.feed, e)
	return e
}

// looked returns how often the feed was read.
func (f *fakeStore) looked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

// refusal returns why a subscription is not served.
func (f *fakeStore) refusal(who outbox.Subscription) error {
	switch {
	case who.Token != outbox.TokenDigest(aToken) || !f.token.InForce:
		return outbox.ErrToken
	case !slices.Contains(f.token.Verbs, outbox.VerbRead):
		return outbox.ErrForbidden
	}
	for _, each := range who.Participants {
		if !slices.Contains(f.token.Participants, each) {
			return outbox.ErrForbidden
		}
	}
	return nil
}

func (f *fakeStore) Events(
	_ context.Context, all []outbox.Subscription, from outbox.Place, since time.Time, most int,
) (outbox.Heard, error) {
	defer time.Sleep(f.slow)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	f.places = most
	if err := f.fail("events"); err != nil {
		return outbox.Heard{}, err
	}
	heard := outbox.Heard{Refused: map[int]error{}, Place: from}
	for n, who := range all {
		if err := f.refusal(who); err != nil {
			heard.Refused[n] = err
		}
	}
	begin := int(from.Xact)
	if begin > len(f.feed) || begin > 0 && f.feed[begin-1].AttemptID != from.AttemptID { // a failover has forgotten it
		heard.WentBack, heard.Place, begin = true, outbox.Place{}, 0
	}
	for from.IsZero() && begin < len(f.feed) && f.feed[begin].CreatedAt.Before(since) {
		begin++
	}
	for n := begin; n < len(f.feed); n++ {
		if heard.More = most == 0; heard.More {
			break
		}
		most--
		e := f.feed[n]
		heard.Place = outbox.Place{System: 1, Xact: uint64(n + 1), OutboxID: e.OutboxID, AttemptNo: e.AttemptNo,
			AttemptID: e.AttemptID}
		one := outbox.HeardEvent{Event: e, At: heard.Place, Last: true}
		for n, who := range all {
			participants := who.Participants
			if participants == nil {
				participants = f.token.Participants
			}
			if heard.Refused[n] == nil && slices.Contains(participants, e.ParticipantID) &&
				(who.Types == nil || slices.Contains(who.Types, e.Type)) {
				one.For = append(one.For, n)
			}
		}
		if len(one.For) > 0 {
			heard.Events = append(heard.Events, one)
		}
	}
	return heard, nil
}

func (f *fakeStore) Newest(_ context.Context, who outbox.Subscription) (outbox.Place, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("newest"); err != nil {
		return outbox.Place{}, err
	}
	if err := f.refusal(who); err != nil || len(f.feed) == 0 {
		return outbox.Place{}, err
	}
	last := f.feed[len(f.feed)-1]
	return outbox.Place{System: 1, Xact: uint64(len(f.feed)), OutboxID: last.OutboxID, AttemptNo: last.AttemptNo,
		AttemptID: last.AttemptID}, nil
}
