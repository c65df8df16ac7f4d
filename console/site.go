package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
)

// Cell is one cell of a process of several: what its pages read, and what its acts do.
type Cell struct {
	// Setting is that of the cell in the map of cells, such as WEST. The addresses of its pages begin
	// with /cells/WEST/.
	Setting  string
	Schema   string
	Reader   Reader
	Operator Operator // nil: the console is read-only, which it is for all cells or for none
	// ReportsFolder, Administrators and DatabaseSizeLimit are as in Config, of this cell.
	ReportsFolder     string
	Administrators    []string
	DatabaseSizeLimit int64
}

// Site is what the cells of a process have in common: the address, the ways to log in and the
// sessions. Each of its cells has its own reading of the state and its own bounds of queries, so that one that
// does not answer takes nothing from the others. Make one with NewSite, then call Run once.
type Site struct {
	config   Config
	logins   []Login
	listen   func() (net.Listener, error)
	log      *slog.Logger
	sessions *sessions
	streams  *streams
	consoles []*Console
	only     *Console // the one of New, whose addresses have no base; nil: there may be several
	readOnly bool
	pages    pages // above the cells
	handler  http.Handler
	loopback bool   // it listens on a loopback address
	at       string // the address that browsers use; without a public URL it is empty until Run listens
	once     service.Once
	// Lines of the log that requests without a session cause.
	refusals, undoneActs service.LogBound
}

// settingForm is the form of a setting in the map of cells.
var settingForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`)

// NewSite returns a Site of cells, or all faults of its configuration in one error. Run calls listen. The
// fields of Config for one cell have to be empty: Cell, ReportsFolder, Administrators and DatabaseSizeLimit.
func NewSite(
	config Config, logins []Login, cells []Cell, listen func() (net.Listener, error), log *slog.Logger,
) (*Site, error) {
	var b service.Bounds
	if len(cells) == 0 || len(cells) > cellsMax {
		b.Refuse("a console shows 1 to %d cells, and not %d", cellsMax, len(cells))
	}
	if config.Cell != "" || config.ReportsFolder != "" || len(config.Administrators) > 0 || config.DatabaseSizeLimit != 0 {
		b.Refuse("each of several cells has a schema, a folder of reports and a size limit of its own")
	}
	for n, cell := range cells {
		if !settingForm.MatchString(cell.Setting) {
			b.Refuse("the setting %q of a cell must be of capital letters, digits and _, such as WEST", cell.Setting)
		}
		if slices.ContainsFunc(cells[:n], func(other Cell) bool { return other.Setting == cell.Setting }) {
			b.Refuse("the setting %s is named twice", cell.Setting)
		}
		if (cell.Operator == nil) != (cells[0].Operator == nil) {
			b.Refuse("either every cell has acts, or none has: %s differs from %s", cell.Setting, cells[0].Setting)
		}
		if cell.DatabaseSizeLimit < 0 {
			b.Refuse("the size limit of the database of %s must not be negative", cell.Setting)
		}
	}
	if b.Err() != nil {
		return nil, errors.Join(b.Err(), config.withDefaults().validate(logins))
	}
	return newSite(config, logins, listen, log, cells...)
}

// cellsMax bounds the cells of one process.
const cellsMax = 100

func newSite(
	config Config, logins []Login, listen func() (net.Listener, error), log *slog.Logger, cells ...Cell,
) (*Site, error) {
	config = config.withDefaults()
	if err := config.validate(logins); err != nil {
		return nil, err
	}
	s := &Site{
		config: config, logins: logins, listen: listen, log: log,
		sessions: newSessions(config.SessionsMax, config.SessionIdle, config.SessionMax),
		streams:  newStreams(config.StreamsMax), readOnly: cells[0].Operator == nil, at: config.PublicURL,
	}
	rest := func(of string) func(int) {
		return func(leftOut int) { log.Warn(of+" within a minute, more than are logged", "not_logged", leftOut) }
	}
	s.refusals.Rest = rest("logins were refused")
	s.undoneActs.Rest = rest("acts came without a session, and were not done,")
	for _, cell := range cells {
		s.consoles = append(s.consoles, s.consoleOf(cell))
	}
	if cells[0].Setting == "" {
		s.only = s.consoles[0]
	} else {
		s.pages = parsePages("")
	}
	s.handler = s.secure(s.routes())
	return s, nil
}

// consoleOf returns the pages and acts of a cell. One without a setting is the only one, and has no base.
func (s *Site) consoleOf(cell Cell) *Console {
	c := &Console{
		Site: s, cell: cell, reader: newGated(cell.Reader), ungated: cell.Reader, looking: make(chan struct{}, 1),
		operator: cell.Operator, log: s.log,
	}
	if cell.Setting != "" {
		c.base, c.log = "/cells/"+cell.Setting, s.log.With("cell", cell.Setting)
	}
	c.pages = parsePages(c.base)
	return c
}

// Run serves until the context ends, then lets requests finish within the drain time. It returns an
// error if passwords and sessions would go over the wire in the clear, and, with New, if the login is that of
// another role or if another build has migrated the cell. One of several cells is shown as away for that.
func (s *Site) Run(ctx context.Context) error {
	if err := s.once.Begin(); err != nil {
		return err
	}
	listener, err := s.listen()
	if err != nil {
		return err
	}
	if err := s.checkAddress(listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.loopback, s.at = isLoopback(listener.Addr().String()), s.address(listener.Addr())
	s.log.InfoContext(ctx, "the console listens", "addr", listener.Addr().String(), "read_only", s.readOnly)
	listener = s.config.TLS.Listen(service.AtMost(listener, s.config.ConnectionsMax))
	endpoint := service.Endpoint{
		Name: "the console", Server: s.server(), Drain: func() time.Duration { return s.config.Drain },
	}
	if s.config.Announce != nil {
		err = s.config.Announce(s.at)
	}
	if s.only != nil {
		err = errors.Join(err, s.only.refresh(ctx))
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	parts := []func(ctx context.Context) error{
		func(ctx context.Context) error { return endpoint.Serve(ctx, listener) }, s.config.TLS.Watch,
	}
	for _, c := range s.consoles {
		parts = append(parts, c.watch)
	}
	return service.Together(ctx, parts...)
}

// server has the timeouts and limits of the API. Live streams end when its shutdown begins.
func (s *Site) server() *http.Server {
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: s.config.RequestTimeout + 10*time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: service.HandshakeLog(s.log),
	}
	server.RegisterOnShutdown(s.streams.end)
	return server
}

// address is where browsers reach the console.
func (s *Site) address(bound net.Addr) string {
	switch {
	case s.config.PublicURL != "":
		return s.config.PublicURL
	case s.config.TLS != nil:
		return "https://" + bound.String()
	default:
		return "http://" + bound.String()
	}
}

// ErrExposed is returned by Run if sessions, or a one-time link, would be within reach of others.
var ErrExposed = errors.New("the address is one that others reach")

// checkAddress refuses to listen where sessions would go over a network in the clear, and a one-time
// link where other machines can reach it.
func (s *Site) checkAddress(addr net.Addr) error {
	if isLoopback(addr.String()) {
		return nil
	}
	for _, login := range s.logins {
		if login.LoopbackOnly() {
			return fmt.Errorf("%w: the one-time link is for a loopback address alone: listen on 127.0.0.1, or use OIDC or "+
				"client certificates", ErrExposed)
		}
	}
	if s.config.TLS == nil && !s.secureCookies() {
		return fmt.Errorf("%w: sessions would go over the wire in the clear: set a certificate, or the public URL of the "+
			"proxy with TLS in front of it, which begins with https", ErrExposed)
	}
	return nil
}

// Ready returns nil if the state of a cell was read lately, and otherwise why not. One of several is enough: the
// others are served no worse without it.
func (s *Site) Ready() error {
	lately := max(3*s.config.RefreshEvery, 15*time.Second)
	if slices.ContainsFunc(s.consoles, func(c *Console) bool { return c.state.last.Age() <= lately }) {
		return nil
	}
	if s.only == nil {
		return errors.New("the state of no cell was read")
	}
	return errors.New("the state of the cell was not read")
}

// isLoopback reports whether an address with a port is of this machine alone.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isPrivate reports whether an address is reached by TLS, or without leaving this machine.
func isPrivate(at *url.URL) bool {
	return at.Scheme == "https" || at.Scheme == "http" && isLoopback(at.Host)
}
