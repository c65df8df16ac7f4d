// Package console is the web console: it shows the state of cells and of their payments, and has the
// acts of operators, each under the person who logged in. It reads as a member of
// railhead_readonly and acts as one of railhead_operator, so that the database refuses what a page
// should not have offered.
package console

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Reader is what the console reads; reader.Reader of the ledger implements it. Each call is bounded
// in time and rows.
type Reader interface {
	Status(ctx context.Context) (reader.Status, error)
	Pace(ctx context.Context) (reader.Pace, error)
	LettersByCode(ctx context.Context, filter reader.LetterFilter) ([]reader.LetterGroup, bool, error)
	DeadLetters(ctx context.Context, filter reader.LetterFilter) ([]reader.Letter, error)
	Find(ctx context.Context, reference string) ([]reader.Found, error)
	Timeline(ctx context.Context, outboxID payment.ID) (reader.Timeline, error)
	Deliveries(ctx context.Context, outboxID payment.ID) ([]reader.Delivery, error)
	PayloadForm(ctx context.Context, outboxID payment.ID) ([]reader.FormLine, error)
	List(ctx context.Context, filter reader.ListFilter) (reader.List, error)

	RailProfiles(ctx context.Context, query reader.ProfileQuery) (reader.RailProfiles, error)
	RailCodes(ctx context.Context, railType string) (reader.RailCodes, error)
	RailPause(ctx context.Context, railType string) (*reader.Pause, error)
	Participants(ctx context.Context, filter reader.ParticipantFilter) (reader.ParticipantList, error)
	Participant(ctx context.Context, participantID string) (reader.Participant, error)
	Endpoints(ctx context.Context) ([]outbox.ListedEndpoint, error)
	HeldEvents(ctx context.Context) (reader.HeldEvents, error)
	Installed(ctx context.Context) (reader.Schema, []reader.Suspension, error)
	MapState(ctx context.Context) (reader.MapState, error)
	Database(ctx context.Context) (reader.Database, error)
	LargestTables(ctx context.Context) ([]reader.TableSize, error)
	ExpiringSoon(ctx context.Context) (soon []reader.Expiring, more bool, err error)
	Tokens(ctx context.Context) ([]reader.ListedToken, bool, error)
	OperatorLog(ctx context.Context, filter reader.LogFilter) (acts []reader.LoggedAct, more bool, err error)
	NeverLogged(ctx context.Context, filter reader.LogFilter) (sentences []string, err error)
	RoleDifferences(ctx context.Context, cell string, administrators []string) ([]acl.Difference, error)
	Identity(ctx context.Context) (reader.Identity, error)
}

// Operator has the acts of the console; operator.Operator of the ledger implements it.
type Operator interface {
	TriageDeadLetter(ctx context.Context, id payment.ID, to operator.Triage, reason string) (before string, err error)
	ReplayPayment(ctx context.Context, id payment.ID, expiresAt time.Time, reason string) (attemptNo int, err error)
	ResolvePayment(ctx context.Context, id payment.ID, evidence operator.Evidence) (payment.State, error)
	InquirePayment(ctx context.Context, id payment.ID, reason string) (attemptNo int, err error)
	CancelPayment(ctx context.Context, id payment.ID, reason string) (operator.Cancellation, error)
	SkipInOrder(ctx context.Context, id payment.ID, reason string) (sequenceID int64, err error)
	ReschedulePayment(ctx context.Context, id payment.ID, dueAt time.Time, reason string) (operator.DueChange, error)

	PauseRail(ctx context.Context, railType, reason string, until time.Time) (wasRunning bool, err error)
	ResumeRail(ctx context.Context, railType, reason string) (wasPaused bool, err error)
	PauseParticipant(ctx context.Context, participantID, reason string, until time.Time) (wasRunning bool, err error)
	ResumeParticipant(ctx context.Context, participantID, reason string) (wasPaused bool, err error)
	Redeliver(ctx context.Context, endpoint string, since time.Time, reason string) (waited int, err error)
	Discard(ctx context.Context, endpoint, reason string) (discarded int, err error)
	RevealPayload(ctx context.Context, id payment.ID, reason string) (operator.Revealed, error)
	AcceptTimeline(ctx context.Context, since time.Time, reason string) (outbox.Server, error)
}

// Config configures the console. The zero value of every field means its default.
type Config struct {
	Cell    string // its schema, shown on each page; for New alone, as each Cell of NewSite has its own
	Version string // of the binary
	// PublicURL is the address that browsers use, such as https://railhead.example. Requests with
	// another host are refused. Empty: the address that the console listens on, which must be a
	// loopback address then, or have TLS.
	PublicURL string
	// TraceURL is the address of a trace, with {trace_id} in place of its id, such as
	// https://traces.example/trace/{trace_id}. Empty: pages have no links to traces.
	TraceURL string
	// TLS has the files of the certificate. Without it a proxy has to provide TLS, unless the
	// console listens on a loopback address.
	TLS *service.TLS
	// ReportsFolder is where railhead prove --report files the reports of the cell; empty: none are shown. For New
	// alone, as Cell.
	ReportsFolder string
	// Administrators are the logins without superuser that may become the owner. For New alone, as Cell.
	Administrators []string
	// DatabaseSizeLimit is the size that the disk of the database can hold, in bytes; 0: it is not known. For New
	// alone, as Cell.
	DatabaseSizeLimit int64
	// ConnectionsMax is the maximum of open connections; default 200.
	ConnectionsMax int
	// RequestTimeout bounds the work for one page or act; default 15 s.
	RequestTimeout time.Duration
	// RefreshEvery is the time between readings of the state of the cell; default 5 s.
	RefreshEvery time.Duration
	// Drain is how long requests under way may take at the end; default 5 s.
	Drain time.Duration
	// Announce is called with the address of the console, such as http://127.0.0.1:8080, once it
	// listens and before it serves; nil: nothing is.
	Announce func(address string) error
	// SessionIdle ends a session that is not used, and SessionMax every session; defaults 30 min
	// and 12 h. SessionsMax is the maximum of sessions; default 1000: one more ends the one that was
	// not used for the longest time.
	SessionIdle, SessionMax time.Duration
	SessionsMax             int
	// StreamsMax is the maximum of live streams; default half of ConnectionsMax, as each needs one.
	StreamsMax int
}

func (c Config) withDefaults() Config {
	service.Fill(&c.ConnectionsMax, 200)
	service.Fill(&c.RequestTimeout, 15*time.Second)
	service.Fill(&c.RefreshEvery, 5*time.Second)
	service.Fill(&c.Drain, 5*time.Second)
	service.Fill(&c.SessionIdle, 30*time.Minute)
	service.Fill(&c.SessionMax, 12*time.Hour)
	service.Fill(&c.SessionsMax, 1000)
	service.Fill(&c.StreamsMax, max(c.ConnectionsMax/2, 1))
	return c
}

func (c Config) validate(logins []Login) error {
	var b service.Bounds
	if c.PublicURL != "" {
		at, err := url.Parse(c.PublicURL)
		if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.Path != "" || at.RawQuery != "" {
			b.Refuse("the public URL must be such as https://railhead.example, without a path")
		} else if !isPrivate(at) {
			b.Refuse("the public URL must begin with https://, unless its host is this machine: sessions and logins would " +
				"cross the network unencrypted")
		}
	}
	if at, err := url.Parse(c.PublicURL); err == nil && at.Host != "" && !isLoopback(at.Host) &&
		slices.ContainsFunc(logins, Login.LoopbackOnly) {
		b.Refuse("the one-time link is for this machine alone, and by a proxy at the public URL others would reach it: " +
			"leave one of them out")
	}
	if c.TraceURL != "" && traceLink(c.TraceURL, strings.Repeat("0", 32)) == "" {
		b.Refuse("the address of traces must be such as https://traces.example/trace/{trace_id}")
	}
	if len(logins) == 0 {
		b.Refuse("there is no way to log in: configure OIDC, client certificates or the one-time link")
	}
	service.Within(&b, "connections", c.ConnectionsMax, 1, 100_000)
	service.Within(&b, "request timeout", c.RequestTimeout, 100*time.Millisecond, time.Minute)
	service.Within(&b, "refresh every", c.RefreshEvery, 100*time.Millisecond, time.Minute)
	service.Within(&b, "drain", c.Drain, 0, time.Minute)
	service.Within(&b, "session idle", c.SessionIdle, time.Minute, 24*time.Hour)
	service.Within(&b, "session max", c.SessionMax, time.Minute, 7*24*time.Hour)
	service.Within(&b, "sessions", c.SessionsMax, 1, 100_000)
	service.Within(&b, "streams", c.StreamsMax, 1, 100_000)
	if c.DatabaseSizeLimit < 0 {
		b.Refuse("the size limit of the database must not be negative")
	}
	return b.Err()
}

// Console is the pages and acts of one cell. Make one with New, then call Run once. Any number may run: a person
// logs in to each of them. Several cells in one process are a Site.
type Console struct {
	*Site
	cell     Cell
	base     string        // what the addresses of the cell begin with; empty: it is the only one
	reader   Reader        // of pages: gated
	ungated  Reader        // of the state
	looking  chan struct{} // of one: the state is being read
	operator Operator      // nil: the console is read-only
	log      *slog.Logger
	pages    pages
	state    state
}

// New returns a Console, or all faults of its configuration in one error. Run calls listen. With a
// nil Operator the console is read-only.
func New(
	config Config, logins []Login, reader Reader, operator Operator, listen func() (net.Listener, error),
	log *slog.Logger,
) (*Console, error) {
	s, err := newSite(config, logins, listen, log, Cell{
		Schema: config.Cell, Reader: reader, Operator: operator, ReportsFolder: config.ReportsFolder,
		DatabaseSizeLimit: config.DatabaseSizeLimit, Administrators: config.Administrators,
	})
	if err != nil {
		return nil, err
	}
	return s.only, nil
}
