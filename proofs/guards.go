package proofs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/migrations"
)

// guardProofs are about the changes that the schema itself refuses.
func guardProofs() []Proof {
	return []Proof{
		{
			Name: "schema", Promise: appendOnly,
			Shows: "Tables, columns, constraints, indexes, triggers and the bodies of functions are, line by line, those " +
				"that this build migrates to",
			Expected: "no additional line, and none missing", Reads: []string{"schema_migrations"},
			Statements: []string{"sql/version.sql", "sql/uuidv7.sql", schemaComparison},
			whole:      proveSchema, script: schemaLines,
		},
		{
			Name: "triggers", Promise: appendOnly,
			Shows: "UPDATE, DELETE and TRUNCATE are refused by triggers that exist and are ENABLE ALWAYS on every table " +
				"and partition, and there is no other trigger",
			Expected: "every trigger in place and always on", Statements: []string{"sql/triggers.sql"},
			whole: judged("triggers"), script: judgement("triggers", nil),
		},
		{
			Name: "guards", Promise: paidOnce,
			Shows: "The unique indexes and checks on which the promises depend are valid on every partition, text is " +
				"stored and sorted by its bytes, and tables survive a crash",
			Expected: "every index and check in place, COLLATE \"C\" everywhere", Statements: []string{"sql/guards.sql"},
			whole: judged("guards"), script: judgement("guards", nil),
		},
		{
			Name: "stored-here", Promise: appendOnly,
			Shows: "Every table and partition is an ordinary one on this server, where the triggers and indexes that guard " +
				"it work: none is foreign, distributed, outside of the schema, or kept by another access method",
			Expected: "every row in a table of this server", Statements: []string{"sql/stored_here.sql"},
			whole: judged("stored_here"), script: judgement("stored_here", nil),
		},
		{
			Name: "origin-ingest", Promise: roles,
			Shows:    "The ingest role can't write pending, and can only enqueue and read the status of its instructions",
			Expected: "no privilege but these", Statements: []string{"sql/origin_ingest.sql", "sql/attempts.sql"},
			script: judgement("origin_ingest", nil),
			whole: origin("origin_ingest", nil, func(a attempt) bool {
				return a.role == "railhead_ingest" && (a.Kind == "function" || a.Name == "payment_outbox_pending")
			}),
		},
		{
			Name: "origin-executor", Promise: appendOnly,
			Shows:      "The executor role can't update or delete an attempt",
			Expected:   "no such privilege, on the archive or a partition",
			Statements: []string{"sql/origin_executor.sql", "sql/attempts.sql"},
			script:     judgement("origin_executor", nil),
			whole: origin("origin_executor", nil, func(a attempt) bool {
				return a.role == "railhead_executor" && (a.Verb == "UPDATE" || a.Verb == "DELETE") &&
					strings.HasPrefix(a.Name, "payment_outbox_attempts")
			}),
		},
		{
			Name: "origin-truncate", Promise: appendOnly,
			Shows:      "TRUNCATE fails for every role and login",
			Expected:   "no such privilege, on any table, of any role or login",
			Statements: []string{"sql/origin_truncate.sql", "sql/attempts.sql"},
			script:     administered("origin_truncate"),
			whole: origin("origin_truncate", func(s *session) []any {
				return []any{s.roleNames(), s.matrix.Owner, s.options.named()}
			}, func(a attempt) bool { return a.Verb == "TRUNCATE" }),
		},
		{
			Name: "origin-sequences", Promise: roles,
			Shows:    "The sequences are unreadable to readonly and auditor",
			Expected: "no such privilege, in any column", Statements: []string{"sql/origin_sequences.sql", "sql/attempts.sql"},
			script: judgement("origin_sequences", nil),
			whole: origin("origin_sequences", nil, func(a attempt) bool {
				return (a.role == "railhead_readonly" || a.role == "railhead_auditor") && a.Name == "participant_outbox_sequences"
			}),
		},
	}
}

// proveSchema compares the dump of the live schema with the committed one of this build.
func proveSchema(ctx context.Context, s *session, t *tally) error {
	version, err := s.schemaVersion(ctx)
	if err != nil {
		return err
	}
	all, err := migrations.All(s.cell)
	if err != nil {
		return err
	}
	if newest := all[len(all)-1].Version; version != newest {
		t.offend("the cell is at migration %d and this build at %d: run the proof with its own build", version, newest)
		return nil
	}
	want, err := migrations.Schema(s.cell)
	if err != nil {
		return err
	}
	live, body := "", ""
	if err := s.read(ctx, func(tx pgx.Tx) error {
		if live, err = migrations.Dump(ctx, tx, s.cell); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, s.sql("uuidv7")).Scan(&body)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the dump lacks it as well
		}
		return err
	}); err != nil {
		return err
	}
	bodies, err := migrations.UUIDv7Bodies(s.cell)
	if err != nil {
		return err
	}
	if !slices.Contains(bodies, body) {
		t.offend("the body of function uuidv7 is not one that a migration creates")
	}
	wanted, found := places(want), places(live)
	for _, line := range wanted {
		if !slices.Contains(found, line) {
			t.offend("missing: %s", line)
		}
	}
	for _, line := range found {
		if !slices.Contains(wanted, line) {
			t.offend("not of this build: %s", line)
		}
	}
	t.rows, t.seen = int64(len(found)), fmt.Sprintf("%d lines of schema at migration %d", len(found), version)
	return nil
}

// places makes each line of a dump independent: a column or constraint is
// named with its table.
func places(dump string) []string {
	var all []string
	under := ""
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
		case strings.HasPrefix(line, "  "):
			all = append(all, under+": "+strings.TrimSpace(line))
		default:
			under, _, _ = strings.Cut(line, " with (")
			all = append(all, line)
		}
	}
	return all
}
