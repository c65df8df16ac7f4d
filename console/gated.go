package console

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// The bounds of what pages read. Fewer queries of theirs run at once than the login for reading has
// connections, so that there is always one for the state of the cell.
const (
	queriesMax = 5                // at once
	queryWait  = 2 * time.Second  // for one of them to end
	queryMax   = 10 * time.Second // for a query with all of its statements
	busyRetry  = 5 * time.Second  // after which a page that was turned away may be asked for again
)

// errBusy is returned if other pages have all the queries that may run at once.
var errBusy = errors.New("too many queries of pages run at once")

// gated is a Reader of which at most queriesMax calls run at once, each for queryMax at most.
type gated struct {
	reader Reader
	places chan struct{}
}

func newGated(reader Reader) gated { return gated{reader, make(chan struct{}, queriesMax)} }

// through makes one call once there is a place for it.
func through[T any](ctx context.Context, g gated, call func(context.Context) (T, error)) (T, error) {
	var none T
	wait := time.NewTimer(queryWait)
	defer wait.Stop()
	select {
	case g.places <- struct{}{}:
		defer func() { <-g.places }()
	case <-wait.C:
		return none, errBusy
	case <-ctx.Done():
		return none, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, queryMax, errQueryTime)
	defer cancel()
	found, err := call(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errQueryTime) {
		err = errors.Join(errQueryTime, err)
	}
	return found, err
}

// errQueryTime is returned if a query with all of its statements took longer than queryMax.
var errQueryTime = errors.New("the query took too long")

// and is two results as one.
type and[A, B any] struct {
	a A
	b B
}

func (g gated) Status(ctx context.Context) (reader.Status, error) {
	return through(ctx, g, g.reader.Status)
}

func (g gated) Pace(ctx context.Context) (reader.Pace, error) { return through(ctx, g, g.reader.Pace) }

func (g gated) LettersByCode(ctx context.Context, filter reader.LetterFilter) ([]reader.LetterGroup, bool, error) {
	found, err := through(ctx, g, func(ctx context.Context) (and[[]reader.LetterGroup, bool], error) {
		groups, more, err := g.reader.LettersByCode(ctx, filter)
		return and[[]reader.LetterGroup, bool]{groups, more}, err
	})
	return found.a, found.b, err
}

func (g gated) DeadLetters(ctx context.Context, filter reader.LetterFilter) ([]reader.Letter, error) {
	return throughOne(ctx, g, g.reader.DeadLetters, filter)
}

func (g gated) Find(ctx context.Context, reference string) ([]reader.Found, error) {
	return throughOne(ctx, g, g.reader.Find, reference)
}

func (g gated) Timeline(ctx context.Context, outboxID payment.ID) (reader.Timeline, error) {
	return throughOne(ctx, g, g.reader.Timeline, outboxID)
}

func (g gated) Deliveries(ctx context.Context, outboxID payment.ID) ([]reader.Delivery, error) {
	return throughOne(ctx, g, g.reader.Deliveries, outboxID)
}

func (g gated) PayloadForm(ctx context.Context, outboxID payment.ID) ([]reader.FormLine, error) {
	return throughOne(ctx, g, g.reader.PayloadForm, outboxID)
}

func (g gated) List(ctx context.Context, filter reader.ListFilter) (reader.List, error) {
	return throughOne(ctx, g, g.reader.List, filter)
}

func (g gated) RailProfiles(ctx context.Context, query reader.ProfileQuery) (reader.RailProfiles, error) {
	return throughOne(ctx, g, g.reader.RailProfiles, query)
}

func (g gated) RailCodes(ctx context.Context, railType string) (reader.RailCodes, error) {
	return throughOne(ctx, g, g.reader.RailCodes, railType)
}

func (g gated) RailPause(ctx context.Context, railType string) (*reader.Pause, error) {
	return throughOne(ctx, g, g.reader.RailPause, railType)
}

func (g gated) Participants(ctx context.Context, filter reader.ParticipantFilter) (reader.ParticipantList, error) {
	return throughOne(ctx, g, g.reader.Participants, filter)
}

func (g gated) Participant(ctx context.Context, participantID string) (reader.Participant, error) {
	return throughOne(ctx, g, g.reader.Participant, participantID)
}

func (g gated) Endpoints(ctx context.Context) ([]outbox.ListedEndpoint, error) {
	return through(ctx, g, g.reader.Endpoints)
}

func (g gated) HeldEvents(ctx context.Context) (reader.HeldEvents, error) {
	return through(ctx, g, g.reader.HeldEvents)
}

func (g gated) Installed(ctx context.Context) (reader.Schema, []reader.Suspension, error) {
	found, err := through(ctx, g, func(ctx context.Context) (and[reader.Schema, []reader.Suspension], error) {
		schema, suspensions, err := g.reader.Installed(ctx)
		return and[reader.Schema, []reader.Suspension]{schema, suspensions}, err
	})
	return found.a, found.b, err
}

func (g gated) MapState(ctx context.Context) (reader.MapState, error) {
	return through(ctx, g, g.reader.MapState)
}

func (g gated) Database(ctx context.Context) (reader.Database, error) {
	return through(ctx, g, g.reader.Database)
}

func (g gated) LargestTables(ctx context.Context) ([]reader.TableSize, error) {
	return through(ctx, g, g.reader.LargestTables)
}

func (g gated) ExpiringSoon(ctx context.Context) ([]reader.Expiring, bool, error) {
	found, err := through(ctx, g, func(ctx context.Context) (and[[]reader.Expiring, bool], error) {
		soon, more, err := g.reader.ExpiringSoon(ctx)
		return and[[]reader.Expiring, bool]{soon, more}, err
	})
	return found.a, found.b, err
}

func (g gated) Tokens(ctx context.Context) ([]reader.ListedToken, bool, error) {
	found, err := through(ctx, g, func(ctx context.Context) (and[[]reader.ListedToken, bool], error) {
		all, more, err := g.reader.Tokens(ctx)
		return and[[]reader.ListedToken, bool]{all, more}, err
	})
	return found.a, found.b, err
}

func (g gated) OperatorLog(ctx context.Context, filter reader.LogFilter) ([]reader.LoggedAct, bool, error) {
	found, err := through(ctx, g, func(ctx context.Context) (and[[]reader.LoggedAct, bool], error) {
		acts, more, err := g.reader.OperatorLog(ctx, filter)
		return and[[]reader.LoggedAct, bool]{acts, more}, err
	})
	return found.a, found.b, err
}

func (g gated) NeverLogged(ctx context.Context, filter reader.LogFilter) ([]string, error) {
	return throughOne(ctx, g, g.reader.NeverLogged, filter)
}

func (g gated) RoleDifferences(ctx context.Context, cell string, administrators []string) ([]acl.Difference, error) {
	return through(ctx, g, func(ctx context.Context) ([]acl.Difference, error) {
		return g.reader.RoleDifferences(ctx, cell, administrators)
	})
}

func (g gated) Identity(ctx context.Context) (reader.Identity, error) {
	return through(ctx, g, g.reader.Identity)
}

// throughOne is through for a call with one argument.
func throughOne[A, T any](
	ctx context.Context, g gated, call func(context.Context, A) (T, error), argument A,
) (T, error) {
	return through(ctx, g, func(ctx context.Context) (T, error) { return call(ctx, argument) })
}
