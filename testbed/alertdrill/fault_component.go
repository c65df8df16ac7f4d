package alertdrill

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/railsim"
)

// componentFaults returns the faults of single components: one is stopped or killed, loses its
// notifications or its login, has a caller or an endpoint that fails, or a server whose clock is
// wrong.
func componentFaults() []fault {
	return []fault{
		{
			name: "RailheadNotifierLost", about: "the relayer is started with a RAILHEAD_LISTEN_URL that leads to another " +
				"database", wants: ticket("RailheadNotifierLost"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return nil, errors.Join(w.stop("relayer"),
					w.start(ctx, "relayer", "RAILHEAD_LISTEN_URL="+w.server.URL(pgserver.Superuser, "railhead_relayer_login")))
			},
			heal: func(ctx context.Context, w *world) error {
				return errors.Join(w.stop("relayer"), w.start(ctx, "relayer"))
			},
		},
		{
			name: "RailheadReaperNotRunning", about: "the only reaper is stopped", wants: page("RailheadReaperNotRunning"),
			short:  true,
			inject: func(_ context.Context, w *world) ([]string, error) { return nil, w.stop("reaper") },
			heal:   func(ctx context.Context, w *world) error { return w.start(ctx, "reaper") },
		},
		{
			name: "RailheadComponentStale", about: "the callback endpoint is killed", wants: page("RailheadComponentStale"),
			inject: func(_ context.Context, w *world) ([]string, error) { return nil, w.kill("callbacks") },
			heal:   func(ctx context.Context, w *world) error { return w.start(ctx, "callbacks") },
		},
		{
			name: "RailheadComponentStopped", about: "the callback endpoint is stopped in order, and not started again",
			wants:  ticket("RailheadComponentStopped"),
			inject: func(_ context.Context, w *world) ([]string, error) { return nil, w.stop("callbacks") },
			heal:   func(ctx context.Context, w *world) error { return w.start(ctx, "callbacks") },
		},
		{
			name: "RailheadComponentRestarts", about: "the callback endpoint is started again three times",
			wants:  ticket("RailheadComponentRestarts"),
			inject: func(ctx context.Context, w *world) ([]string, error) { return nil, w.startAgain(ctx, "callbacks", 3) },
			heal:   func(context.Context, *world) error { return nil },
		},
		{
			name: "RailheadCertificateExpires", about: "the certificate of an HTTP API expires in 15 minutes",
			wants:  []string{"RailheadCertificateExpires/ticket", "RailheadCertificateExpires/page"},
			inject: func(ctx context.Context, w *world) ([]string, error) { return w.expiringCertificate(ctx) },
			heal:   func(_ context.Context, w *world) error { return w.certificate(90 * 24 * time.Hour) },
		},
		{
			name: "RailheadStateUnsaved", about: "a file is in the place of the folder in which the reaper keeps its memory",
			wants:  ticket("RailheadStateUnsaved"),
			inject: func(_ context.Context, w *world) ([]string, error) { return w.takeStateAway("reaper") },
			heal:   func(_ context.Context, w *world) error { return w.bringStateBack("reaper") },
		},
		{
			name: "RailheadAPIFailing", about: "the login of the HTTP API may not log in any more, while callers ask",
			wants:  page("RailheadAPIFailing"),
			inject: func(ctx context.Context, w *world) ([]string, error) { return nil, w.apiWithoutDatabase(ctx) },
			heal: func(ctx context.Context, w *world) error {
				_, err := w.admin.Exec(ctx, `ALTER ROLE railhead_api_login LOGIN`)
				return err
			},
		},
		{
			name: "RailheadTokenNotInForce", about: "a caller goes on with a token that was revoked",
			wants:  ticket("RailheadTokenNotInForce"),
			inject: func(ctx context.Context, w *world) ([]string, error) { return nil, w.revokedToken(ctx) },
			heal:   func(context.Context, *world) error { return nil },
		},
		{
			name: "RailheadWebhookStuck", about: "an endpoint of a caller answers 500", wants: ticket("RailheadWebhookStuck"),
			inject: func(ctx context.Context, w *world) ([]string, error) { return w.refusingEndpoint(ctx) },
			heal:   func(_ context.Context, w *world) error { w.endpointTakes.Store(true); return nil },
		},
		{
			name: "RailheadCallbacksNotTaken", about: "a sender without the secret calls back about rail giro",
			wants: ticket("RailheadCallbacksNotTaken"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return []string{"RAIL=giro"}, w.unsignedCallback(ctx, "giro")
			},
			heal: func(context.Context, *world) error { return nil },
		},
		{
			name: "RailheadStuckDispatching", about: "the reaper is stopped, and the relayer is killed while rail swift hangs",
			wants: page("RailheadStuckDispatching"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				if err := w.stop("reaper"); err != nil {
					return nil, err
				}
				vars, err := w.spoiledWith(ctx, "swift", 3, railsim.Fault{Kind: railsim.HangBefore})
				if err != nil {
					return nil, err
				}
				err = await.Until(ctx, 20*time.Second, "the claim", func() (bool, error) {
					var n int
					err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_attempts a
					  WHERE a.rail_type = 'swift' AND a.state = 'DISPATCHING'
					  AND a.claimed_at > now() - interval '10 seconds'`).Scan(&n)
					return n >= 3, err
				})
				return vars, errors.Join(err, w.kill("relayer"))
			},
			heal: func(ctx context.Context, w *world) error {
				return errors.Join(w.banks["swift"].spoil(ctx), w.start(ctx, "relayer"), w.start(ctx, "reaper"))
			},
		},
		{
			name: "RailheadStatsStale", about: "the login that reads the statistics may not log in any more",
			wants: page("RailheadStatsStale"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				_, err := w.admin.Exec(ctx, `ALTER ROLE railhead_auditor_login NOLOGIN`)
				if err == nil {
					_, err = w.admin.Exec(ctx, `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
						WHERE a.usename = 'railhead_auditor_login'`)
				}
				return nil, err
			},
			heal: func(ctx context.Context, w *world) error {
				_, err := w.admin.Exec(ctx, `ALTER ROLE railhead_auditor_login LOGIN`)
				return err
			},
		},
		{
			name: "RailheadClockSkew", about: "a second cell, whose database server runs 5 s ahead under libfaketime",
			wants:  ticket("RailheadClockSkew"),
			inject: func(ctx context.Context, w *world) ([]string, error) { return nil, w.startAhead(ctx) },
			heal:   func(_ context.Context, w *world) error { return w.setAhead(0) },
		},
	}
}

func collect(rows pgx.Rows) ([]string, error) { return pgx.CollectRows(rows, pgx.RowTo[string]) }
