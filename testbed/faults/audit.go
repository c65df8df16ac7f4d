package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/proofs"
)

// audit runs every read-only proof, as an auditor of the installation would. It runs when
// all services have ended, so that no claim may still count as in flight. What a proof
// finds counts as false even where the oracle does not see it.
func (w *World) audit(ctx context.Context) (report proofs.Report, err error) {
	config, err := pgx.ParseConfig(w.Lane.url(w.database, ""))
	if err != nil {
		return report, err
	}
	config.RuntimeParams["application_name"] = "oracle"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return report, fmt.Errorf("connecting to prove: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return proofs.Run(ctx, conn, proofs.Options{Cell: cell, Logins: logins, InFlightMax: time.Millisecond})
}

// judgeAudit adds the results of the proofs to the verdict.
func (v *Verdict) judgeAudit(report proofs.Report) {
	for _, proof := range report.Proofs {
		if proof.Status == proofs.Failed {
			v.breaks("the proof %s fails: %s", proof.Name, proof.Seen)
		}
	}
	v.ProofsPassed, v.ProofsFailed = report.Passed, report.Failed
	if report.Rows == 0 {
		v.breaks("the proofs saw nothing: %s", report.Summary())
	}
}
