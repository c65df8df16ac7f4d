package proofs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// lived is a cell in which an instruction of every state has come to it by the
// product's own ways: enqueue, turns, repair, callbacks, operators' functions.
func lived(t testing.TB) pgtest.Template {
	t.Helper()
	base, err := celltest.Template()
	if err != nil {
		t.Fatal(err)
	}
	return pgtest.Template{Name: "proofs", Locale: base.Locale, Digest: base.Digest + " lives 10",
		Build: func(ctx context.Context, adminURL string) error {
			if err := base.Build(ctx, adminURL); err != nil {
				return err
			}
			return live(ctx, adminURL)
		}}
}

// database is a clone of it, on a server of the test's own or, for nil, the shared one.
func database(t testing.TB, cluster *pgtest.Cluster) *pgtest.DB {
	t.Helper()
	var db *pgtest.DB
	if cluster == nil {
		db = pgtest.New(t, pgtest.From(lived(t)))
	} else {
		db = cluster.New(t, pgtest.From(lived(t)))
	}
	if _, err := db.Conn(t, "").Exec(t.Context(), install.Copied(migrations.DefaultCell)); err != nil {
		t.Fatal(err)
	}
	return db
}

// The rails of the fixture, by what decides about them.
var (
	sameKey = payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour),
		IDAfterRefusal: payment.IDSame}
	never = payment.Policy{}
	asks  = payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour),
		Inquiry: payment.InquiryPolicy{
			Max: 2, Intervals: []payment.Duration{payment.Duration(time.Second)},
			NotFound: payment.NotFoundNotExecuted, NotFoundAge: payment.Duration(time.Microsecond),
			NotFoundUntil: payment.Duration(24 * time.Hour),
		},
	}
	provisional = payment.Policy{
		Acceptance: payment.AcceptanceProvisional,
		Inquiry: payment.InquiryPolicy{
			Max: 2, Intervals: []payment.Duration{payment.Duration(time.Second)}, NotFound: payment.NotFoundInconclusive,
		},
	}
)

// life makes instructions live. The first error stops all that follows.
type life struct {
	ctx                     context.Context
	executor                *executor.Executor
	super, ingest, operator *pgx.Conn
	n                       int
	order                   outbox.Order // of the bank's lane
	ordered                 []string
	err                     error
}

func live(ctx context.Context, adminURL string) (err error) {
	l := &life{ctx: ctx}
	as := func(login string) *pgx.ConnConfig {
		config, parseErr := pgx.ParseConfig(adminURL)
		if parseErr != nil {
			l.err = parseErr
			return nil
		}
		if login != "" {
			config.User = login
		}
		return config
	}
	for login, conn := range map[string]**pgx.Conn{"": &l.super, celltest.Ingest: &l.ingest,
		celltest.Operator: &l.operator} {
		if *conn, err = pgx.ConnectConfig(ctx, as(login)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, (*conn).Close(context.WithoutCancel(ctx))) }()
	}
	relayer := as(celltest.Relayer)
	l.executor, err = executor.Open(ctx, ledger.Config{
		URL:  fmt.Sprintf("host=%s port=%d user=%s dbname=%s", relayer.Host, relayer.Port, relayer.User, relayer.Database),
		Cell: "railhead",
	})
	if err != nil {
		return err
	}
	defer l.executor.Close()
	l.everything()
	if l.err != nil {
		return fmt.Errorf("instruction %d of the fixture: %w", l.n, l.err)
	}
	_, err = l.executor.CloseClaims(ctx, nil)
	return err
}

// enqueue enqueues an instruction of one of three participants.
func (l *life) enqueue() payment.ID { return l.enqueueFor(fmt.Sprintf("participant-%d", (l.n+1)%3)) }

func (l *life) enqueueFor(participant string) (id payment.ID) {
	l.n++
	l.do(l.ingest, func(conn *pgx.Conn) error {
		return conn.QueryRow(l.ctx, `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, $2, $1, 'bank',
			jsonb_build_object('amount', $3::text, 'currency', 'EUR', 'creditor', jsonb_build_object('account', 'DE-' || $1), 'note', 'Zürich "ß" \ ü'))`,
			fmt.Sprintf("instruction-%d", l.n), participant,
			fmt.Sprintf("%d.50", l.n)).Scan((*[16]byte)(&id))
	})
	return id
}

// enqueueWith enqueues with other arguments than the content: "send_once => true".
func (l *life) enqueueWith(arguments string) (id payment.ID) {
	l.n++
	l.do(l.ingest, func(conn *pgx.Conn) error {
		return conn.QueryRow(l.ctx, `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'participant-1', $1, 'bank',
			'{"amount": "1.50", "currency": "EUR"}', `+arguments+`)`, fmt.Sprintf("instruction-%d", l.n)).Scan((*[16]byte)(&id))
	})
	return id
}

func (l *life) do(conn *pgx.Conn, f func(*pgx.Conn) error) {
	if l.err == nil {
		l.err = f(conn)
	}
}

func (l *life) exec(conn *pgx.Conn, sql string, args ...any) {
	l.do(conn, func(conn *pgx.Conn) error { _, err := conn.Exec(l.ctx, sql, args...); return err })
}

// claim makes one instruction due and claims only it.
func (l *life) claim(id payment.ID) payment.Claim {
	l.exec(l.super, `UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'
		WHERE outbox_id = $1`, [16]byte(id))
	if l.err != nil {
		return payment.Claim{}
	}
	var version int
	l.do(l.super, func(conn *pgx.Conn) error {
		return conn.QueryRow(l.ctx, `SELECT profile_version FROM railhead.payment_rails
			WHERE rail_type = $1`, celltest.Bank).Scan(&version)
	})
	if l.err != nil {
		return payment.Claim{}
	}
	claims, err := l.executor.ClaimOnly(l.ctx, outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "worker",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 2, Oldest: 1, ProfileVersion: version,
			RenderVersion: "render/1", Order: l.order}},
	}, []payment.ID{id})
	switch {
	case err != nil:
		l.err = err
	case len(claims) != 1 || claims[0].OutboxID != id:
		l.err = fmt.Errorf("claimed %d others instead of %s", len(claims), id)
	default:
		return claims[0]
	}
	return payment.Claim{}
}

func outcome(claim payment.Claim, decision payment.Decision, result payment.Result, reference string) payment.Outcome {
	return payment.Outcome{
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Decision: decision, Result: result,
		RailReference: reference, WorkerID: "worker", ProfileVersion: 1, RenderVersion: "render/1",
	}
}

func told(policy payment.Policy, claim payment.Claim, result payment.Result) payment.Outcome {
	decision := policy.WithDefaults().Decide(claim, payment.Answer{Result: result, Elapsed: time.Second})
	return outcome(claim, decision, result, "ref-"+claim.InstructionID)
}

func (l *life) record(o payment.Outcome) {
	if l.err != nil {
		return
	}
	result, err := l.executor.Turn(l.ctx, outbox.Turn{Outcomes: []payment.Outcome{o},
		Finished: []payment.ID{o.Claim.ClaimID}, Ordered: l.ordered})
	if l.err = err; err == nil && len(result.Late) > 0 {
		l.err = errors.New("an outcome was late")
	}
}

// sent claims an instruction and records the rail's answer.
func (l *life) sent(id payment.ID, policy payment.Policy, result payment.Result) payment.Claim {
	claim := l.claim(id)
	l.record(told(policy, claim, result))
	return claim
}

// late records by the slow path, and insists on the verdict.
func (l *life) late(want payment.Verdict, o payment.Outcome) {
	if l.err != nil {
		return
	}
	verdict, err := l.executor.RecordLate(l.ctx, o)
	if l.err = err; err == nil && verdict != want {
		l.err = fmt.Errorf("the late outcome was %s, want %s", verdict, want)
	}
}

// callback is what a rail reports by itself.
func (l *life) callback(
	want payment.Verdict, claim payment.Claim, decision payment.Decision, result payment.Result, reference string,
) {
	claim.AttemptNo = 0
	l.late(want, outcome(claim, decision, result, reference))
}

func (l *life) resolve(id payment.ID, executed bool) {
	reference := "ref-by-hand-" + id.String()
	if !executed {
		reference = ""
	}
	l.exec(l.operator, `SELECT railhead.resolve_payment($1, $2, nullif($3, ''), current_date, 'statement 7', 'asked the bank')`,
		[16]byte(id), executed, reference)
}

func (l *life) replay(id payment.ID) {
	l.exec(l.operator, `SELECT railhead.replay_payment($1, 'the account is open again')`, [16]byte(id))
}
