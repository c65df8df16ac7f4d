package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Superuser is the login with which a private server is created.
const Superuser = "postgres"

const (
	dataName    = "data"       // the data folder inside a temporary folder
	logName     = "server.log" // the log there, unless Options.LogFile
	defaultRoot = "/tmp"       // not os.TempDir: on macOS that is too long for a socket path
	socketPort  = 5432         // part of the socket's file name when no TCP port is open

	// maxSocketPath is the longest socket path we use, in bytes. The kernel takes 107 on Linux, 103 on
	// macOS; some clients copy the path with a prefix.
	maxSocketPath = 90

	defaultStartTimeout = 60 * time.Second // a crash recovery may be part of a start
	fastTimeout         = 30 * time.Second // for a stop in fast mode, checkpoint included
	immediateTimeout    = 10 * time.Second // for one without; the postmaster itself gives up on its children after 5 s
)

// Options configures a server. The zero value is a temporary server of any supported version.
type Options struct {
	// Major is the wanted major version; 0 takes that of an existing DataDir, else what [Find]
	// prefers.
	Major int
	// DataDir keeps the data between runs; it is created at the first. "" is a temporary folder.
	DataDir string
	// Settings are added to postgresql.conf, for example {"max_connections": "300"}. They replace
	// those of an earlier run. Durability settings stay at PostgreSQL's safe defaults unless named
	// here.
	Settings map[string]string
	// Env is added to the server's environment, for example {"LD_PRELOAD=..."}.
	Env []string
	// LogFile receives the server's log, appended; "" is a file in the temporary folder.
	LogFile string
	// TCP additionally opens a TCP port, for example "127.0.0.1:0" for any free one; "" opens none.
	// Only loopback addresses. Logins over TCP need a password: see [Server.TCPURL] and
	// [Server.AllowTCP].
	TCP string
	// TempRoot is where temporary folders are made, short enough for a socket path; "" is that of [EnvRoot], or /tmp.
	TempRoot string
	// StartTimeout bounds initdb, recovery and the first answer, together; 0 is 60 s.
	StartTimeout time.Duration
	// Log receives what the package itself does; nil discards it. The same lines are in
	// [Server.Notes].
	Log *slog.Logger
}

// TestSettings returns the settings of servers for tests: room for parallel test binaries and
// two-phase commit, and nothing that weakens durability, because the tests are about durability.
func TestSettings() map[string]string {
	return map[string]string{"max_connections": "300", "max_prepared_transactions": "10"}
}

// Server is a running PostgreSQL. Its methods may be called from any goroutine; they run one at a
// time.
type Server struct {
	opts     Options
	bin      Binaries
	acct     account
	run      string // temporary folder: socket, and data and log unless placed elsewhere
	data     string
	logPath  string
	port     int
	tcp      *net.TCPAddr // nil: no TCP
	password string       // of the superuser, for TCP
	locks    []fileLock

	mu    sync.Mutex
	child *child // the current or the last one
	ended bool   // stopped for good
	notes []string
}

// Start creates the data folder if need be, starts PostgreSQL on it and returns once it answers.
//
// What earlier runs have left is cleared first, see the package comment; Notes tells what it was. A
// live server of another process on the same DataDir is [ErrInUse]. No PostgreSQL on this machine
// is [ErrNotFound]. The server outlives ctx, which bounds the start only, but never this process.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	major := opts.Major
	if major == 0 && opts.DataDir != "" {
		if major, err = clusterMajor(opts.DataDir); err != nil {
			return nil, err
		}
	}
	bin, err := Find(ctx, major)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, bin: bin, acct: acct, port: socketPort, data: opts.DataDir, logPath: opts.LogFile}
	for _, n := range sweep(opts.TempRoot, acct, opts.Log) {
		s.note(n)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.discard())
		}
	}()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	return s, s.launch(ctx)
}

func (o Options) withDefaults() (Options, error) {
	o.TempRoot = cmp.Or(o.TempRoot, os.Getenv(EnvRoot), defaultRoot)
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var errs []error
	for _, p := range []*string{&o.TempRoot, &o.DataDir, &o.LogFile} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		errs = append(errs, err)
		*p = abs
	}
	// MkdirTemp appends up to ten digits.
	longest := filepath.Join(o.TempRoot, tempPrefix+"0123456789", socketName(65535))
	if len(longest) > maxSocketPath {
		errs = append(errs, fmt.Errorf("temporary root %s makes socket paths of %d bytes, more than %d", o.TempRoot,
			len(longest), maxSocketPath))
	}
	errs = append(errs, checkSettings(o.Settings))
	if o.TCP != "" {
		_, err := loopback(o.TCP)
		errs = append(errs, err)
	}
	return o, errors.Join(errs...)
}

// PID returns the process id of the postmaster, or 0 when it is not running.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.child.running() {
		return 0
	}
	return s.child.pid
}

// Exited returns a channel that is closed when the current server process has ended, expected or
// not. After a Restart call it again.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.done
}

// gone reports whether the current server process has ended. Exited is closed a moment later.
func (s *Server) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.child.running() || errors.Is(syscall.Kill(s.child.pid, 0), syscall.ESRCH)
}

// Notes returns what the package found and did beyond an ordinary start: leftovers removed,
// orphans stopped.
func (s *Server) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.notes...)
}

// Binaries returns the installation that the server runs.
func (s *Server) Binaries() Binaries { return s.bin }

// DataDir returns the absolute path of the data folder.
func (s *Server) DataDir() string { return s.data }

// LogFile returns the absolute path of the server's log.
func (s *Server) LogFile() string { return s.logPath }

// SocketDir returns the folder of the unix socket, which libpq calls the host.
func (s *Server) SocketDir() string { return s.run }

// URL returns the connection string for a database and a login over the unix socket; "" is the
// superuser. It stays the same over Restart.
func (s *Server) URL(database, user string) string {
	q := url.Values{"host": {s.run}, "port": {strconv.Itoa(s.port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(cmp.Or(user, Superuser)), Path: "/" + cmp.Or(database, "postgres")}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx and libpq take + for a plus
	return u.String()
}

// TCPAddr returns the loopback address that the server listens on, or "" without Options.TCP. It
// stays the same over Restart.
func (s *Server) TCPAddr() string {
	if s.tcp == nil {
		return ""
	}
	return s.tcp.String()
}

// TCPURL returns the connection string over addr, which leads to the server: TCPAddr itself, or a
// proxy in front of it. The login must be the superuser or one named to [Server.AllowTCP].
func (s *Server) TCPURL(addr, database, user string) string {
	u := url.URL{
		Scheme: "postgres", Host: addr, Path: "/" + cmp.Or(database, "postgres"),
		User:     url.UserPassword(cmp.Or(user, Superuser), s.password),
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

func socketName(port int) string { return ".s.PGSQL." + strconv.Itoa(port) }

// Stop ends the server (fast mode: open transactions are rolled back, data is flushed) and removes
// what was temporary. If ctx ends first, or the server takes more than 30 s, it gets 10 s for an
// immediate stop, and is then killed. Stopping twice is fine.
func (s *Server) Stop(ctx context.Context) error { return s.end(ctx, syscall.SIGINT) }

// StopImmediate ends the server without a checkpoint, as after a crash, and removes what was
// temporary.
func (s *Server) StopImmediate(ctx context.Context) error { return s.end(ctx, syscall.SIGQUIT) }

func (s *Server) end(ctx context.Context, sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.ended = true
	return errors.Join(s.child.stop(ctx, sig), s.discard())
}

// Halt ends the server in fast mode but keeps everything for [Server.Restart], as in a planned
// outage.
func (s *Server) Halt(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.stop(ctx, syscall.SIGINT)
}

// Kill9 kills the postmaster and all its processes at once, as the kernel's out-of-memory killer or
// a lost machine would, except that the kernel still holds what was written and not flushed. Data
// stays for Restart.
func (s *Server) Kill9() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.kill()
}

// Restart starts the server again under the same addresses; a running one is first ended in fast
// mode.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errors.New("server was stopped for good")
	}
	if err := s.child.stop(ctx, syscall.SIGINT); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.StartTimeout)
	defer cancel()
	return s.launch(ctx)
}

func (s *Server) note(text string) {
	s.notes = append(s.notes, text)
	s.opts.Log.Info("private PostgreSQL", "note", text)
}

// discard removes the temporary files and then releases the locks: as long as files exist they are
// locked.
func (s *Server) discard() error {
	var err error
	if s.run != "" {
		err = os.RemoveAll(s.run)
	}
	for _, l := range s.locks {
		l.release()
	}
	s.locks = nil
	return err
}
