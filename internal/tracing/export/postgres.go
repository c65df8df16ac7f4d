package export

import (
	"context"
	"errors"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	metric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// postgres makes spans of statements by otelpgx. A span contains the text of the statement, which
// is constant, and never its parameters; of an error it contains only the SQLSTATE, because a
// server quotes what it refuses. Connections are not traced: their errors contain logins.
type postgres struct{ inner *otelpgx.Tracer }

func newPostgres(provider trace.TracerProvider) postgres {
	return postgres{otelpgx.NewTracer(
		otelpgx.WithTracerProvider(provider), otelpgx.WithMeterProvider(metric.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithDisableAcquireTracer())}
}

func (p postgres) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	data.Args = nil
	return p.inner.TraceQueryStart(ctx, conn, data)
}

func (p postgres) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	data.Err = stateOnly(data.Err)
	p.inner.TraceQueryEnd(ctx, conn, data)
}

func (p postgres) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return p.inner.TraceBatchStart(ctx, conn, data)
}

func (p postgres) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	data.Args, data.Err = nil, stateOnly(data.Err)
	p.inner.TraceBatchQuery(ctx, conn, data)
}

func (p postgres) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	data.Err = stateOnly(data.Err)
	p.inner.TraceBatchEnd(ctx, conn, data)
}

// stateOnly returns the part of an error that contains no content.
func stateOnly(err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return &pgconn.PgError{Severity: "ERROR", Code: refused.Code, Message: "refused by the server"}
	}
	return errors.New("no answer from the server")
}
