package webhook

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// book is a store in memory: a feed, a place, and waiting events, by the rules of the database's
// functions.
type book struct {
	mu      sync.Mutex
	feed    []payment.Event
	place   int // events of the feed that are behind it
	epoch   int64
	notes   int64
	worker  string
	until   time.Time // of its lease
	paused  time.Time
	waiting map[payment.EventKey]*waits
	broken  bool // it answers with errors
	blind   bool // due events can't be read
	most    int  // that waited at once
	others  byte // events of this instruction are not for the endpoint; 0: all are
}

type waits struct {
	outbox.WaitingEvent
	next    time.Time
	givenUp bool
}

var errAway = fmt.Errorf("the database is away")

func newBook() *book { return &book{waiting: make(map[payment.EventKey]*waits)} }

// happens adds an event of an instruction to the feed.
func (b *book) happens(instruction byte) payment.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	number := 1
	for _, e := range b.feed {
		if e.OutboxID[0] == instruction {
			number++
		}
	}
	e := payment.Event{OutboxID: payment.ID{instruction}, AttemptNo: number, Type: payment.EventAccepted,
		CreatedAt: time.Now()}
	binary.BigEndian.PutUint32(e.AttemptID[:], uint32(len(b.feed)+1))
	b.feed = append(b.feed, e)
	return e
}

func (b *book) Take(
	_ context.Context, endpoint, worker string, within time.Duration, _ time.Time,
) (outbox.EndpointLease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return outbox.EndpointLease{}, errAway
	}
	if b.worker != worker && b.until.After(time.Now()) {
		return outbox.EndpointLease{Endpoint: endpoint, Worker: worker, HeldBy: b.worker}, nil
	}
	b.until = time.Now().Add(within)
	if b.worker != worker {
		b.worker = worker
		b.epoch++
	}
	lease := outbox.EndpointLease{Endpoint: endpoint, Worker: worker, Epoch: b.epoch, PausedAt: b.paused}
	if !b.paused.IsZero() {
		lease.PauseReason = "gone"
	}
	return lease, nil
}

func (b *book) Due(
	_ context.Context, lease outbox.EndpointLease, _ []string, _ []payment.EventType, _, places int,
) (outbox.DueEvents, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken || b.blind {
		return outbox.DueEvents{}, errAway
	}
	if lease.Epoch != b.epoch {
		return outbox.DueEvents{}, outbox.ErrNotHeld
	}
	due := outbox.DueEvents{Waiting: len(b.waiting), Notes: b.notes}
	var all []*waits
	for _, w := range b.waiting {
		all = append(all, w)
		if due.OldestWaiting.IsZero() || w.CreatedAt.Before(due.OldestWaiting) {
			due.OldestWaiting = w.CreatedAt
		}
		if w.givenUp {
			due.GivenUp++
		}
	}
	slices.SortFunc(all, func(x, y *waits) int {
		return 1000*(int(x.OutboxID[0])-int(y.OutboxID[0])) + x.AttemptNo - y.AttemptNo
	})
	blocked := map[payment.ID]bool{}
	for _, w := range all {
		if w.givenUp || w.next.After(time.Now()) {
			blocked[w.OutboxID] = true
		}
		if !blocked[w.OutboxID] {
			due.Events = append(due.Events, outbox.DueEvent{Event: w.Event, Retry: true, Tries: w.Tries})
		}
	}
	end := min(b.place+places, len(b.feed))
	if len(b.waiting) >= 1000 {
		end = b.place
	}
	for n, e := range b.feed[b.place:end] {
		if b.others != 0 && e.OutboxID[0] == b.others {
			continue
		}
		behind := slices.ContainsFunc(all, func(w *waits) bool { return w.OutboxID == e.OutboxID })
		due.Events = append(due.Events, outbox.DueEvent{Event: e, Behind: behind,
			At: outbox.Place{Xact: uint64(b.place + n + 1)}, Last: true})
	}
	due.Place, due.More = outbox.Place{Xact: uint64(end)}, end < len(b.feed)
	return due, nil
}

func (b *book) Note(
	_ context.Context, lease outbox.EndpointLease, within time.Duration, note outbox.DeliveryNote,
) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return errAway
	}
	if lease.Epoch != b.epoch || note.Notes != b.notes {
		return outbox.ErrNotHeld
	}
	told := make(map[payment.EventKey]bool)
	for _, w := range note.Waiting {
		if told[w.Key()] {
			return fmt.Errorf("ON CONFLICT DO UPDATE command cannot affect row a second time")
		}
		told[w.Key()] = true
	}
	b.notes++
	b.until = time.Now().Add(within)
	if !note.Place.IsZero() {
		b.place = int(note.Place.Xact)
	}
	for _, done := range note.Done {
		delete(b.waiting, done)
	}
	for _, w := range note.Waiting {
		if b.waiting[w.Key()] != nil && w.Tries == 0 {
			continue
		}
		b.waiting[w.Key()] = &waits{WaitingEvent: w, next: time.Now().Add(w.Wait), givenUp: w.GivenUp}
	}
	b.most = max(b.most, len(b.waiting))
	if note.Again {
		for _, w := range b.waiting {
			if !w.givenUp {
				w.next, w.Tries = time.Now(), min(w.Tries, 1)
			}
		}
	}
	return nil
}

func (b *book) Pause(_ context.Context, lease outbox.EndpointLease, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lease.Epoch != b.epoch {
		return outbox.ErrNotHeld
	}
	b.paused = time.Now()
	return nil
}

// sink is an endpoint in memory.
type sink struct {
	mu    sync.Mutex
	took  []payment.Event
	tries []time.Time
	say   func(payment.Event) answer // its answer; nil: 200
	slow  time.Duration
	later time.Duration // of each event but the first of an instruction, where that is not 0
}

func (s *sink) send(ctx context.Context, e payment.Event) answer {
	wait := s.slow
	if e.AttemptNo > 1 && s.later > 0 {
		wait = s.later
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return answer{status: StatusTimeout}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = append(s.tries, time.Now())
	said := answer{taken: true, code: 200}
	if s.say != nil {
		said = s.say(e)
	}
	if said.taken {
		s.took = append(s.took, e)
	}
	return said
}

var refusal = answer{status: "HTTP_500", code: 500}

// orderly reports events that came before an earlier one of their instruction had come.
func (s *sink) orderly(fault func(string, ...any)) {
	last := map[payment.ID]int{}
	for _, e := range s.took {
		if e.AttemptNo > last[e.OutboxID]+1 {
			fault("event %d of instruction %d came after %d", e.AttemptNo, e.OutboxID[0], last[e.OutboxID])
		}
		last[e.OutboxID] = max(last[e.OutboxID], e.AttemptNo)
	}
}

// tried is how often it was tried.
func (s *sink) tried() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tries)
}

// at is the place, how long the feed is, and the most that waited.
func (b *book) at() (place, feed, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.place, len(b.feed), b.most
}

// distinct is how many events it took, repetitions left out.
func (s *sink) distinct() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[payment.ID]bool{}
	for _, e := range s.took {
		seen[e.AttemptID] = true
	}
	return len(seen)
}

type watched struct {
	mu    sync.Mutex
	state State
	taken int
	not   map[string]int
}

func (w *watched) Delivered(string)              { w.mu.Lock(); defer w.mu.Unlock(); w.taken++ }
func (w *watched) NotDelivered(_, status string) { w.mu.Lock(); defer w.mu.Unlock(); w.not[status]++ }
func (w *watched) Seen(_ string, state State)    { w.mu.Lock(); defer w.mu.Unlock(); w.state = state }
func (w *watched) now() State                    { w.mu.Lock(); defer w.mu.Unlock(); return w.state }

func newCourier(b *book, s *sink, worker string) (*courier, *watched) {
	watch := &watched{not: map[string]int{}}
	config := Config{Worker: worker, StoreTimeout: time.Second, Poll: 30 * time.Second, Lease: 30 * time.Second,
		Drain: 10 * time.Second}
	return &courier{
		endpoint: Endpoint{ID: "shop", Concurrency: 4}, send: s.send, close: func() {}, store: b, watch: watch,
		config: config, log: slog.New(slog.DiscardHandler),
	}, watch
}

// running runs a courier in a bubble until the test ends.
func running(t *testing.T, b *book, s *sink, do func(*watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c, watch := newCourier(b, s, "worker-1")
		ended := make(chan struct{})
		go func() { c.run(ctx); close(ended) }()
		do(watch)
		stop()
		<-ended
		s.orderly(t.Errorf)
	})
}

// TestNothingIsMissedOrOvertaken tests that, whatever an endpoint refuses, loses or delays, and
// however often the worker is replaced or the database is unavailable, each event arrives in the
// end, those of an instruction in order, and that events do not pile up while the endpoint is down.
func TestNothingIsMissedOrOvertaken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			b, s := newBook(), &sink{slow: 10 * time.Millisecond}
			fails := rapid.IntRange(0, 100).Draw(rt, "percent that fails")
			down := false
			dice := rapid.SliceOfN(rapid.IntRange(0, 99), 50, 200).Draw(rt, "dice")
			turn := 0
			s.say = func(payment.Event) answer {
				turn++
				if down || dice[turn%len(dice)] < fails {
					return refusal
				}
				return answer{taken: true}
			}
			workers := 0
			var stop context.CancelFunc
			var ended chan struct{}
			begin := func() {
				workers++
				ctx, cancel := context.WithCancel(context.Background())
				c, _ := newCourier(b, s, fmt.Sprintf("worker-%d", workers))
				over := make(chan struct{})
				go func() { c.run(ctx); close(over) }()
				stop, ended = cancel, over
			}
			begin()
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				switch rapid.SampledFrom([]string{"happen", "happen", "wait", "down", "up", "replace", "overlap", "away",
					"back"}).Draw(rt, "step") {
				case "happen":
					for range rapid.IntRange(1, 30).Draw(rt, "events") {
						b.happens(byte(rapid.IntRange(1, 6).Draw(rt, "instruction")))
					}
				case "wait":
					time.Sleep(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "seconds")) * time.Second)
				case "down":
					s.mu.Lock()
					down = true
					s.mu.Unlock()
				case "up":
					s.mu.Lock()
					down = false
					s.mu.Unlock()
				case "replace":
					stop()
					<-ended
					begin()
				case "overlap": // the one before goes on until it notices
					before, over := stop, ended
					begin()
					time.Sleep(time.Duration(rapid.IntRange(0, 5000).Draw(rt, "milliseconds")) * time.Millisecond)
					before()
					<-over
				case "away":
					b.mu.Lock()
					b.broken = true
					b.mu.Unlock()
				case "back":
					b.mu.Lock()
					b.broken = false
					b.mu.Unlock()
				}
			}
			b.mu.Lock()
			b.broken = false
			b.mu.Unlock()
			s.mu.Lock()
			down, fails = false, 0
			s.mu.Unlock()
			time.Sleep(40 * time.Hour)
			stop()
			<-ended
			s.orderly(rt.Errorf)
			if s.distinct() != len(b.feed) || len(b.waiting) > 0 || b.place != len(b.feed) {
				rt.Errorf("%d of %d events came, %d wait, place %d", s.distinct(), len(b.feed), len(b.waiting), b.place)
			}
		})
	})
}

// TestDownEndpointPilesUpNothing tests an endpoint that accepts nothing for three days: it has a
// handful of waiting events, is tried every five minutes, and gets all events in order when it is
// back.
func TestDownEndpointPilesUpNothing(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{}
	down := true
	s.say = func(payment.Event) answer {
		if down {
			return refusal
		}
		return answer{taken: true}
	}
	running(t, b, s, func(watch *watched) {
		for n := range 2000 {
			b.happens(byte(n % 50))
		}
		time.Sleep(72 * time.Hour)
		s.mu.Lock()
		tried := len(s.tries)
		down = false
		s.mu.Unlock()
		if _, _, most := b.at(); most > 2*downAfter || tried > 72*60/4 || tried < 72*60/7 {
			t.Errorf("%d waited, %d tries in three days", most, tried)
		}
		if state := watch.now(); !state.Down || state.Lag < 71*time.Hour {
			t.Errorf("it shows %+v", state)
		}
		time.Sleep(6*time.Minute + 30*time.Second)
		if state := watch.now(); s.distinct() != 2000 || state.Down || state.Lag != 0 || state.Waiting != 0 {
			t.Errorf("%d came, it shows %+v", s.distinct(), state)
		}
	})
}

// TestOneBadEventStopsNoOther tests that an event that is never accepted is tried by the ladder and
// given up, that the events after it of its instruction wait, and that others pass.
func TestOneBadEventStopsNoOther(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{}
	tries := 0
	s.say = func(e payment.Event) answer {
		if (e.OutboxID[0] == 7 || e.OutboxID[0] == 9) && e.AttemptNo == 1 {
			tries++
			return refusal
		}
		return answer{taken: true}
	}
	running(t, b, s, func(watch *watched) {
		for range 3 {
			b.happens(7)
			b.happens(8)
			b.happens(9)
		}
		time.Sleep(time.Minute)
		if s.distinct() != 3 || watch.now().Waiting != 6 {
			t.Errorf("%d came, it shows %+v", s.distinct(), watch.now())
		}
		time.Sleep(100 * time.Hour)
		state := watch.now()
		s.mu.Lock()
		tries := tries
		s.mu.Unlock()
		if tries != 2*(len(ladder)+1) || state.GivenUp != 2 || state.Waiting != 6 || s.distinct() != 3 || state.Down {
			t.Errorf("%d tries, it shows %+v, %d came", tries, state, s.distinct())
		}
	})
}

// TestFirstRefusalIsNamed: the log names an event when the endpoint first does not accept it, and not with each try. Of
// many such events it names a few in a minute.
func TestFirstRefusalIsNamed(t *testing.T) {
	t.Parallel()
	b, s, named := newBook(), &sink{}, &records{}
	s.say = func(e payment.Event) answer {
		if e.OutboxID[0] == 7 || e.OutboxID[0] >= 50 {
			return answer{status: "HTTP_422", code: 422} // of the one event: the endpoint is up
		}
		return answer{taken: true}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c, _ := newCourier(b, s, "worker-1")
		c.log = slog.New(named)
		ended := make(chan struct{})
		go func() { c.run(ctx); close(ended) }()
		first := b.happens(7)
		b.happens(8)
		time.Sleep(time.Hour)
		if all := named.of("event_id"); len(all) != 1 || all[0] != first.Name() {
			t.Errorf("it names %q, want %q", all, first.Name())
		}
		for n := range 40 {
			b.happens(byte(50 + n))
		}
		time.Sleep(50 * time.Second)
		if all := named.of("event_id"); len(all) != 1+refusedMost {
			t.Errorf("of 40 refused events it names %d", len(all)-1)
		}
		stop()
		<-ended
	})
}

// records keeps what was logged.
type records struct {
	slog.Handler
	mu  sync.Mutex
	all []slog.Record
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, record)
	return nil
}

// of returns the values of an attribute in what was logged.
func (r *records) of(name string) (values []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.all {
		record.Attrs(func(attr slog.Attr) bool {
			if attr.Key == name {
				values = append(values, attr.Value.String())
			}
			return true
		})
	}
	return values
}

// TestBadEventsStarveNoOther tests that a dozen instructions whose events are never accepted do not
// affect an endpoint, also after an outage, and that events asked for again come once and are tried
// once.
func TestBadEventsStarveNoOther(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{}
	down := false
	s.say = func(e payment.Event) answer {
		if down || e.OutboxID[0] < 12 || e.OutboxID[0] >= 220 {
			return refusal
		}
		return answer{taken: true}
	}
	running(t, b, s, func(watch *watched) {
		for n := range 12 {
			b.happens(byte(n))
			b.happens(100)
		}
		time.Sleep(10 * time.Minute)
		s.mu.Lock()
		down = true
		s.mu.Unlock()
		for n := range 10 {
			b.happens(byte(120 + n))
		}
		time.Sleep(5 * time.Minute)
		if !watch.now().Down {
			t.Errorf("it shows %+v", watch.now())
		}
		s.mu.Lock()
		down = false
		s.mu.Unlock()
		time.Sleep(6 * time.Minute)
		for n := range 50 {
			b.happens(byte(150 + n))
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Minute)
		if want := 12 + 10 + 50; s.distinct() != want || watch.now().Down {
			t.Errorf("%d of %d came, it shows %+v", s.distinct(), want, watch.now())
		}
		// More of them at the head of what is new than make it down.
		for n := range 15 {
			b.happens(byte(220 + n))
		}
		for n := range 10 {
			b.happens(byte(205 + n))
		}
		time.Sleep(3 * time.Hour)
		if want := 12 + 10 + 50 + 10; s.distinct() != want {
			t.Errorf("%d of %d came after bad ones that are new", s.distinct(), want)
		}
		// Everything once more.
		b.mu.Lock()
		b.place, b.epoch = 0, b.epoch+1
		for _, w := range b.waiting {
			w.next = time.Now()
		}
		b.mu.Unlock()
		before := s.tried()
		time.Sleep(5 * time.Minute)
		if place, feed, _ := b.at(); place != feed || s.tried()-before > 2*feed {
			t.Errorf("place %d of %d, %d tries", place, feed, s.tried()-before)
		}
	})
}

// TestPlaceThatWasLost tests that a failover that has forgotten the last note repeats an event,
// once.
func TestPlaceThatWasLost(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{slow: 10 * time.Millisecond}
	running(t, b, s, func(*watched) {
		b.happens(1)
		time.Sleep(time.Minute)
		b.mu.Lock()
		b.place = 0
		b.mu.Unlock()
		time.Sleep(time.Hour)
		if place, _, _ := b.at(); s.tried() != 2 || place != 1 {
			t.Errorf("%d came, place %d", s.tried(), place)
		}
	})
}

// TestDownWithNothingNew tests an endpoint that is down while the only new events are behind events
// that wait for hours: it is tried with what is due, and served when it is back.
func TestDownWithNothingNew(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{slow: 10 * time.Millisecond}
	down, picky := false, true
	s.say = func(e payment.Event) answer {
		if down || picky && e.OutboxID[0] < 4 {
			return refusal
		}
		return answer{taken: true}
	}
	running(t, b, s, func(watch *watched) {
		for n := range 4 {
			b.happens(byte(n))
			b.happens(100)
		}
		time.Sleep(4 * time.Hour) // the next try of the four is hours away
		s.mu.Lock()
		down, picky = true, false
		s.mu.Unlock()
		for n := range 5 {
			b.happens(byte(10 + n))
		}
		time.Sleep(20 * time.Minute)
		for n := range 300 {
			b.happens(byte(n % 4))
		}
		time.Sleep(30 * time.Minute)
		s.mu.Lock()
		down = false
		s.mu.Unlock()
		time.Sleep(20 * time.Minute)
		if want := 4 + 4 + 5 + 300; s.distinct() != want || watch.now().Waiting != 0 {
			t.Errorf("%d of %d came, it shows %+v", s.distinct(), want, watch.now())
		}
	})
}

// TestRefusedIsNotDown tests that an endpoint that refuses hundreds of single events accepts all
// others meanwhile.
func TestRefusedIsNotDown(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{}
	s.say = func(e payment.Event) answer {
		if e.OutboxID[0] < 200 {
			return answer{status: "HTTP_422", code: 422}
		}
		return answer{taken: true}
	}
	running(t, b, s, func(watch *watched) {
		for n := range 400 {
			b.happens(byte(n % 200))
		}
		for n := range 10 {
			b.happens(byte(200 + n))
		}
		time.Sleep(5 * time.Minute)
		if s.distinct() != 10 || watch.now().Down {
			t.Errorf("%d came, it shows %+v", s.distinct(), watch.now())
		}
	})
}

// TestLeaseIsKept tests that another process delivers nothing while deliveries take longer than a
// lease, and takes over when the first one is gone.
func TestLeaseIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newBook(), &sink{slow: 10 * time.Second, later: 29 * time.Second}
		for n := range 12 {
			b.happens(byte(n % 6))
		}
		begin := func(worker string) (end func()) {
			ctx, stop := context.WithCancel(t.Context())
			c, _ := newCourier(b, s, worker)
			ended := make(chan struct{})
			go func() { c.run(ctx); close(ended) }()
			return func() { stop(); <-ended }
		}
		first := begin("worker-1")
		time.Sleep(time.Second)
		second := begin("worker-2")
		time.Sleep(10 * time.Minute)
		if s.tried() != 12 || s.distinct() != 12 {
			t.Errorf("%d of 12 came by %d tries", s.distinct(), s.tried())
		}
		first()
		b.happens(20)
		time.Sleep(2 * time.Minute)
		if s.distinct() != 13 {
			t.Errorf("%d of 13 came", s.distinct())
		}
		second()
		s.orderly(t.Errorf)
	})
}

// TestRoundsAreBounded tests that accepted events are recorded soon, however much is due to a slow
// endpoint.
func TestRoundsAreBounded(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{slow: 5 * time.Second}
	running(t, b, s, func(*watched) {
		for n := range 190 {
			b.happens(byte(n))
		}
		time.Sleep(30 * time.Second)
		if place, _, _ := b.at(); place == 0 {
			t.Error("nothing is noted yet")
		}
	})
}

// TestGoneEndpointIsPaused tests that nothing is sent after 410, and that events that were not
// accepted stay after its place.
func TestGoneEndpointIsPaused(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{slow: time.Second,
		say: func(payment.Event) answer { return answer{gone: true, status: "HTTP_410", code: 410} }}
	running(t, b, s, func(watch *watched) {
		b.happens(1)
		time.Sleep(time.Hour)
		if place, _, _ := b.at(); s.tried() != 1 || !watch.now().Paused || place != 0 {
			t.Errorf("%d tries, it shows %+v, place %d", s.tried(), watch.now(), place)
		}
	})
}

// TestLagOfAPausedEndpoint tests that the lag of a paused endpoint is the age of the first event that it has not
// accepted, also behind more rows of others than one read covers, and that it is 0 while there is none.
func TestLagOfAPausedEndpoint(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{}
	b.others, b.paused = 9, time.Now()
	running(t, b, s, func(watch *watched) {
		time.Sleep(time.Minute)
		if shown := watch.now(); !shown.Paused || !shown.Has || shown.Lag != 0 {
			t.Errorf("without an event: %+v", shown)
		}
		for range 5*duePlaces + 1 {
			b.happens(9)
		}
		time.Sleep(time.Minute)
		if shown := watch.now(); shown.Lag != 0 {
			t.Errorf("with events of others: %+v", shown)
		}
		b.happens(1)
		b.happens(2)
		time.Sleep(48 * time.Hour)
		shown := watch.now()
		if place, _, _ := b.at(); !shown.Paused || shown.Lag < 47*time.Hour || s.tried() > 0 || place != 5*duePlaces+1 {
			t.Errorf("two days later: %+v, %d tries, place %d", shown, s.tried(), place)
		}
		b.mu.Lock()
		b.paused = time.Time{}
		b.mu.Unlock()
		time.Sleep(time.Minute)
		if shown := watch.now(); shown.Paused || shown.Lag != 0 || s.distinct() != 2 {
			t.Errorf("after the pause: %+v, %d events", shown, s.distinct())
		}
	})
}

// TestEndpointAsksForAWait tests that Retry-After applies to the endpoint.
func TestEndpointAsksForAWait(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{}
	s.say = func(payment.Event) answer {
		if len(s.tries) == 1 {
			return answer{status: "HTTP_429", code: 429, retryAfter: 10 * time.Minute}
		}
		return answer{taken: true}
	}
	running(t, b, s, func(*watched) {
		b.happens(1)
		time.Sleep(time.Minute)
		b.happens(2)
		time.Sleep(20 * time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if wait := s.tries[1].Sub(s.tries[0]); len(s.tries) != 3 || wait < 10*time.Minute || wait > 11*time.Minute {
			t.Errorf("tries at %v", s.tries)
		}
	})
}

// TestDeliveriesUnderWayMayFinish tests that deliveries at the end are recorded.
func TestDeliveriesUnderWayMayFinish(t *testing.T) {
	t.Parallel()
	b, s := newBook(), &sink{slow: 5 * time.Second}
	running(t, b, s, func(*watched) {
		b.happens(1)
		time.Sleep(32 * time.Second) // it is looked for each half minute
	})
	if s.distinct() != 1 || b.place != 1 {
		t.Errorf("%d came, place %d", s.distinct(), b.place)
	}
}

// TestUnreadEventsAreNoLagOfZero tests that an endpoint whose events can't be read has a lag that grows from the last
// reading, or from the oldest event of it, and that the courier is not ready until they can be read again. One that has
// not held the lease for so long that it has ended delivers to nothing.
func TestUnreadEventsAreNoLagOfZero(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken, waits   bool
		low, high       time.Duration
		has, everBefore bool
	}{
		"after all was taken":  {everBefore: true, low: 20 * time.Minute, high: 21 * time.Minute, has: true},
		"while an event waits": {everBefore: true, waits: true, low: 80 * time.Minute, high: 82 * time.Minute, has: true},
		"never read":           {low: 20 * time.Minute, high: 82 * time.Minute, has: true},
		"not even the lease":   {everBefore: true, broken: true},
		"never, nor the lease": {broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				b, s := newBook(), &sink{}
				courier, watch := newCourier(b, s, "worker-1")
				set := func(blind, broken bool) {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.blind, b.broken = blind, broken
				}
				set(!c.everBefore && !c.broken, !c.everBefore && c.broken)
				if c.waits {
					s.say = func(payment.Event) answer { return refusal }
				}
				b.happens(1)
				ended := make(chan struct{})
				go func() { courier.run(ctx); close(ended) }()
				time.Sleep(time.Hour)
				synctest.Wait()
				if ready := courier.ready.Err() == nil; ready != c.everBefore {
					t.Errorf("ready before: %v", courier.ready.Err())
				}
				set(!c.broken, c.broken)
				time.Sleep(20*time.Minute + 30*time.Second)
				synctest.Wait()
				if got := watch.now(); got.Has != c.has || got.Lag < c.low || got.Lag > c.high {
					t.Errorf("has it %v with a lag of %s, want %v and %s to %s", got.Has, got.Lag, c.has, c.low, c.high)
				}
				if courier.ready.Err() == nil {
					t.Error("ready though no event can be read")
				}
				set(false, false)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := watch.now(); courier.ready.Err() != nil || !got.Has || !c.waits && got.Lag != 0 {
					t.Errorf("after it can be read again: %+v, ready: %v", got, courier.ready.Err())
				}
				stop()
				<-ended
			})
		})
	}
}
