package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/engine"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// config is the configuration of a command's connection to the cell. A command needs
// one connection, and a second one for look-ups in the meantime.
func (s settings) config(url string) ledger.Config {
	return ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-cli", MaxConns: 2}
}

// withIngest runs do as a member of railhead_ingest.
func withIngest(ctx context.Context, do func(*ingest.Ingest) error) error {
	return withLedger(ctx, "RAILHEAD_INGEST_URL", func(s settings) string { return s.IngestURL }, ingest.Open, do)
}

// withOperator runs do as a member of railhead_operator.
func withOperator(ctx context.Context, do func(*operator.Operator) error) error {
	return ifLost(repeatAct, withLedger(ctx, "RAILHEAD_OPERATOR_URL", func(s settings) string { return s.OperatorURL },
		operator.Open, do))
}

// withReader runs do as a member of railhead_readonly.
func withReader(ctx context.Context, do func(*reader.Reader) error) error {
	url := func(s settings) string { return s.ReaderURL }
	return onlyRead(withLedger(ctx, "RAILHEAD_READER_URL", url, reader.Open, do))
}

func withLedger[T interface{ Close() }](
	ctx context.Context, variable string, own func(settings) string,
	open func(context.Context, ledger.Config) (T, error), do func(T) error,
) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	url, err := s.url(variable, own(s))
	if err != nil {
		return err
	}
	opened, err := open(ctx, s.config(url))
	if err != nil {
		return usage(fmt.Errorf("%s: %w", variable, err))
	}
	defer closeSoon(opened.Close)
	return do(opened)
}

// closeSoon closes connections. One to a server that does not answer holds it up for closeWithin: the end of the
// process closes it then.
func closeSoon(end func()) {
	closed := make(chan struct{})
	go func() {
		end()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeWithin):
	}
}

// adminConfig is the configuration of migrate, roles and token create. They do not use
// package ledger, which is for services, but a login that may change the schema.
func adminConfig() (*pgx.ConnConfig, string, error) {
	s, err := readSettings()
	if err != nil {
		return nil, "", err
	}
	url, err := s.url("RAILHEAD_ADMIN_URL", s.AdminURL)
	if err != nil {
		return nil, "", err
	}
	config, err := adminConfigOf("RAILHEAD_ADMIN_URL", url)
	return config, s.Cell, err
}

// adminConfigOf is the configuration of an administrator's connection by the string of a variable.
func adminConfigOf(variable, url string) (*pgx.ConnConfig, error) {
	if err := ledger.CheckURL(url); err != nil {
		return nil, usage(fmt.Errorf("%s: %w", variable, err))
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", variable, err))
	}
	config.RuntimeParams["application_name"] = "railhead-cli"
	// A superuser's session must find no function in a schema in which others may create some.
	config.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	return config, nil
}

// withAdmin runs do on one connection of the admin's login.
func withAdmin(ctx context.Context, do func(conn *pgx.Conn, cell string) error) error {
	return ifLost(completes, asAdmin(ctx, do))
}

func asAdmin(ctx context.Context, do func(conn *pgx.Conn, cell string) error) error {
	config, cell, err := adminConfig()
	if err != nil {
		return err
	}
	standby := watchStandby(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		conn.Close(closing) //nolint:errcheck // what was done is committed
	}()
	if err := do(conn, cell); err != nil {
		return asAdministrators(err)
	}
	return standby.lacks()
}

// standbyWatch notices commits of an administrator's connections that may be on no
// standby. PostgreSQL reports a cancelled wait for the standby as success with a warning;
// after a failover the commit may be gone.
type standbyWatch struct{ doubt atomic.Pointer[string] }

// watchStandby returns the watch over the connections that a configuration makes.
func watchStandby(config *pgx.ConnConfig) *standbyWatch {
	w := &standbyWatch{}
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if why := engine.Doubt(notice); why != "" {
			w.doubt.Store(&why)
		}
	}
	// A login may be set to hear no warnings.
	config.RuntimeParams["client_min_messages"] = "warning"
	return w
}

// lacks returns outbox.ErrCommitUnknown if a commit may be on no standby.
func (w *standbyWatch) lacks() error {
	if why := w.doubt.Load(); why != nil {
		return fmt.Errorf("%w: %s", outbox.ErrCommitUnknown, *why)
	}
	return nil
}
