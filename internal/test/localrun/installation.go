package localrun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// installation holds what has been started so far, in that order.
type installation struct {
	Options
	runID     string
	elsewhere string           // where data goes that can't be in Dir
	server    *pgserver.Server // nil: DATABASE_URL names one
	admin     string           // connection string of the administrator
	payee     payee
	relayer   *process
	reaper    *process
	api       *process
	apiAddr   string
	console   *process
	// consoleLink is the address of the console, which logs in once.
	consoleLink string
	reader      *reader.Reader
	// passwords holds those of the logins, on the server of DATABASE_URL.
	passwords map[string]string
}

// timeBudget is the time budget of a local run's cell.
var timeBudget = outbox.TimeBudget{
	ClaimTimeout: 30 * time.Second, StartWithin: time.Second, RecordWithin: 5 * time.Second, Drain: 10 * time.Second,
	HeartbeatStale: 3 * time.Second,
}

func (i *installation) startDatabase(ctx context.Context) error {
	if i.DatabaseURL != "" {
		i.admin = i.DatabaseURL
		if err := i.borrow(ctx); err != nil {
			return err
		}
		i.say("database: the server that DATABASE_URL names")
		return nil
	}
	// A service or an option of the shell is for another server.
	if err := child.Isolate(); err != nil {
		return err
	}
	data, err := i.placeData()
	if err != nil {
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Options{
		DataDir: data, LogFile: filepath.Join(i.Dir, "log", "postgres.log"),
		Settings: map[string]string{"max_connections": "100", "shared_buffers": "256MB"}, Log: i.Log,
	})
	if errors.Is(err, pgserver.ErrInUse) {
		return fmt.Errorf("%w: another make run is using %s: stop that one first with Ctrl-C, or name another folder with "+
			"--dir: %w", ErrBadOptions, i.Dir, err)
	}
	if err != nil {
		return fmt.Errorf("starting a private PostgreSQL: %w", err)
	}
	i.server = server
	for _, note := range server.Notes() {
		i.say("database: %s", note)
	}
	i.say("database: private PostgreSQL %s, socket in %s", server.Binaries().Version, server.SocketDir())
	i.admin, err = install.Create(ctx, server)
	return err
}

func (i *installation) prepareDatabase(ctx context.Context) error {
	steps, err := install.Prepare(ctx, i.admin, i.Cell, install.Logins(), func(login string) string {
		if i.server == nil {
			// That server may ask for passwords, so this run sets new ones.
			i.passwords[login] = rand.Text()
		}
		return i.passwords[login]
	})
	if err != nil {
		return err
	}
	if i.server == nil {
		if err := i.mark(ctx); err != nil {
			return err
		}
	}
	if err := install.SetTimeBudget(ctx, i.admin, i.Cell, timeBudget, cellMark); err != nil {
		return err
	}
	i.say("schema: cell %s, %d migrations applied now; roles and %d logins in place", i.Cell, len(steps),
		len(install.Logins()))
	reader, err := reader.Open(ctx, ledger.Config{URL: i.loginURL(install.Readonly), Cell: i.Cell, Name: "railhead-run"})
	if err != nil {
		return err
	}
	i.reader = reader
	return nil
}

// loginURL returns the administrator's connection string with another login.
func (i *installation) loginURL(login string) string {
	if i.server != nil {
		return i.server.URL(install.Database, login)
	}
	if parsed, err := url.Parse(i.admin); err == nil && parsed.Scheme != "" {
		parsed.User = url.UserPassword(login, i.passwords[login])
		return parsed.String()
	}
	return fmt.Sprintf("%s user=%s password=%s", i.admin, login, i.passwords[login])
}

func (i *installation) startServices(ctx context.Context) error {
	common := []string{
		"RAILHEAD_CELL=" + i.Cell, "RAILHEAD_RAILS_FILE=" + i.railsFile(), "RAILHEAD_LOG_FORMAT=text",
		"RAILHEAD_STATE_DIR=" + filepath.Join(i.Dir, "state"),
		"RAILHEAD_HEARTBEAT_EVERY=500ms", "RAILHEAD_REAP_EVERY=1s", "RAILHEAD_REAP_GRACE=3s",
	}
	start := func(kind, variable, login string) (*process, error) {
		addrFile := filepath.Join(i.Dir, kind+".addr")
		env := append([]string{variable + "=" + i.loginURL(login), "RAILHEAD_HTTP_ADDR_FILE=" + addrFile}, common...)
		if err := os.Remove(addrFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		started, err := i.startProcess(kind, i.Railhead, env, kind)
		if err != nil {
			return nil, err
		}
		addr, err := started.awaitFile(ctx, addrFile)
		if err != nil {
			return started, err
		}
		if err := started.current().AwaitReady(ctx, addr); err != nil {
			return started, err
		}
		i.say("%s: process %d as login %s, http://%s/readyz", kind, started.current().PID(), login, addr)
		return started, nil
	}
	var err error
	if i.relayer, err = start("relayer", "RAILHEAD_RELAYER_URL", install.Relayer); err != nil {
		return err
	}
	if i.reaper, err = start("reaper", "RAILHEAD_REAPER_URL", install.Reaper); err != nil {
		return err
	}
	addrFile := filepath.Join(i.Dir, "api-callers.addr")
	// The key of event tokens belongs to this run only.
	common = append(common, "RAILHEAD_API_ADDR_FILE="+addrFile, "RAILHEAD_API_EVENT_KEYS=env:EVENT_KEY",
		"EVENT_KEY="+rand.Text()+rand.Text())
	if i.api, err = start("api", "RAILHEAD_API_URL", install.API); err != nil {
		return err
	}
	if i.apiAddr, err = i.api.awaitFile(ctx, addrFile); err != nil {
		return err
	}
	linkFile := filepath.Join(i.Dir, "console.link")
	common = append(common, "RAILHEAD_OPERATOR_URL="+i.loginURL(install.Operator), "RAILHEAD_CONSOLE_OPERATE=true",
		"RAILHEAD_CONSOLE_LINK=operate", "RAILHEAD_CONSOLE_LINK_FILE="+linkFile)
	if i.console, err = start("console", "RAILHEAD_READER_URL", install.Readonly); err != nil {
		return err
	}
	i.consoleLink, err = i.console.awaitFile(ctx, linkFile)
	return err
}

// token creates a token of the HTTP API for this run.
func (i *installation) token(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, i.admin)
	if err != nil {
		return "", fmt.Errorf("connecting as administrator: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	token, _, err := operator.CreateToken(ctx, conn, i.Cell, operator.NewToken{
		Name: "make run", Participants: []string{"participant-01", "p1"},
		Verbs:     []string{outbox.VerbEnqueue, outbox.VerbRead, outbox.VerbCancel},
		ExpiresAt: time.Now().Add(24 * time.Hour), Reason: "printed by a local run",
	})
	return token, err
}

func (i *installation) stopServices() error {
	var all []error
	for _, each := range []*process{i.console, i.api, i.relayer, i.reaper} {
		if each != nil {
			all = append(all, each.stop(20*time.Second))
		}
	}
	return errors.Join(all...)
}

// stop ends all processes, in the opposite order of their start.
func (i *installation) stop() error {
	all := []error{i.stopServices()}
	if i.payee != nil {
		all = append(all, i.payee.stop())
	}
	if i.reader != nil {
		i.reader.Close()
	}
	if i.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		all = append(all, i.server.Stop(ctx))
	}
	return errors.Join(all...)
}
