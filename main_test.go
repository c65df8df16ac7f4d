package railhead_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/noop"
	"github.com/railhead-pay/railhead/relayer"
)

// TestMain runs the examples on one cell, with a relayer whose rail accepts everything and with the
// HTTP API, which they find as a service would: by the environment.
func TestMain(m *testing.M) {
	from, err := celltest.Template()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the template of a cell:", err)
		os.Exit(1)
	}
	pgtest.MainOn(m, from, start)
}

func start(ctx context.Context, db *pgtest.DB) (func() error, error) {
	quiet := slog.New(slog.DiscardHandler)
	worker, err := executor.Open(ctx, ledger.Config{URL: db.URL(celltest.Relayer), Cell: migrations.DefaultCell})
	if err != nil {
		return nil, err
	}
	notifier, err := executor.NewNotifier(ledger.Config{URL: db.URL(celltest.Relayer), Cell: migrations.DefaultCell,
		Name: "examples-notifier"}, worker, quiet)
	if err != nil {
		return nil, err
	}
	open := func(p rails.Profile) (rails.Rail, error) { return noop.Open(p) }
	one, err := relayer.New(relayer.Config{WorkerID: "examples-" + payment.NewID().String()}, worker, notifier, open,
		relayer.NopObserver{}, quiet)
	if err != nil {
		return nil, err
	}
	door, err := door.Open(ctx, ledger.Config{URL: db.URL(celltest.API), Cell: migrations.DefaultCell})
	if err != nil {
		return nil, err
	}
	over, err := api.New(api.Config{}, door, nil, quiet)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := accept(ctx, db); err != nil {
		return nil, err
	}
	token, err := newToken(ctx, db)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"RAILHEAD_INGEST_URL": db.URL(celltest.Ingest), "RAILHEAD_API": "http://" + listener.Addr().String(), "RAILHEAD_TOKEN": token,
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	running, stop := context.WithCancel(context.Background())
	var services errgroup.Group
	services.Go(func() error { return one.Run(running) })
	services.Go(func() error { return over.Serve(running, listener) })
	return func() error {
		stop()
		err := services.Wait()
		worker.Close()
		door.Close()
		return err
	}, nil
}

// accept makes the copied rows of the cell those on which a relayer sends.
func accept(ctx context.Context, db *pgtest.DB) (err error) {
	admin, err := pgx.Connect(ctx, db.URL(""))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.Close(ctx)) }()
	_, err = admin.Exec(ctx, install.Copied(migrations.DefaultCell))
	return err
}

func newToken(ctx context.Context, db *pgtest.DB) (token string, err error) {
	admin, err := pgx.Connect(ctx, db.URL(""))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, admin.Close(ctx)) }()
	token, _, err = operator.CreateToken(ctx, admin, migrations.DefaultCell, operator.NewToken{
		Name: "examples", Participants: []string{"merchant-7"}, Verbs: []string{outbox.VerbEnqueue, outbox.VerbRead},
		ExpiresAt: time.Now().Add(time.Hour), Reason: "the examples",
	})
	return token, err
}
