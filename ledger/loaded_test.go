package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// loads leaves a cell as its dump does that is loaded into the running server: the tables are new, with the rows that
// they had. What is loaded before triggers are made runs none.
func loads(cell *celltest.Cell, tables ...string) {
	for _, table := range tables {
		cell.Exec(`CREATE TABLE railhead.loaded (LIKE railhead.` + table + ` INCLUDING ALL)`)
		cell.Exec(`INSERT INTO railhead.loaded SELECT * FROM railhead.` + table)
		cell.Exec(`ALTER TABLE railhead.loaded OWNER TO railhead_owner`)
		cell.Exec(`ALTER TABLE railhead.` + table + ` RENAME TO ` + table + `_before`)
		cell.Exec(`ALTER TABLE railhead.loaded RENAME TO ` + table)
	}
}

// TestLoadedRows: a dump that is loaded into the server it is of, and a copy of the database in it, may have forgotten
// sends, although identifier, timeline and start of the server are those that were accepted and compared.
func TestLoadedRows(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]func(d *desk){
		"loaded": func(d *desk) { loads(d.Cell, "payment_accepted_timelines") },
		"copied": func(d *desk) {
			d.unaccepted() // the template has the rows with which the database was copied
			d.do(`INSERT INTO railhead.payment_accepted_timelines (system_identifier, timeline, database_oid, table_oid, reason)
				SELECT s.system_identifier::text, railhead.server_timeline(), 1,
					'railhead.payment_accepted_timelines'::regclass, 'where it was copied from'
				FROM pg_control_system() s`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			waits := d.enqueue()
			d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, vouched)
				VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', true)`)
			before, err := d.exec.CheckServer(t.Context())
			d.must(err)
			if before.AcceptedAt.IsZero() {
				t.Fatal("the server does not count as accepted at first")
			}
			same(t, "settled at first", d.text(`SELECT railhead.server_is_settled()::text`), "true")
			forgets(d)
			server, err := d.exec.CheckServer(t.Context())
			d.must(err)
			if !server.AcceptedAt.IsZero() {
				t.Error("rows that were loaded count as accepted")
			}
			same(t, "settled", d.text(`SELECT railhead.server_is_settled()::text`), "false")
			// A relayer that looked at the server before the rows were loaded claims none of them, also until it looks again.
			same(t, "claimed before the suspension", len(d.claim(lane("bank", 8, 0))), 0)
			// Nor does it in a lane that went on in a suspension which the rows do not have.
			goesOn := lane("bank", 8, 0)
			goesOn.GoesOn = true
			same(t, "claimed before the suspension by a lane that went on", len(d.claim(goesOn)), 0)
			_, err = d.operator().CancelPayment(t.Context(), waits, why)
			refusedWith(t, "cancel", err, "RH020", "a cancellation has to wait")

			// By builds that know no loaded rows, too. It is kept as what makes the map of cells doubtful.
			d.must(d.exec.Suspend(t.Context(), "worker", outbox.CauseNewTimeline, "never accepted", server.Now))
			same(t, "cause", d.text(`SELECT cause || ': ' || detail FROM railhead.payment_outbox_suspensions`),
				"ROWS_MISSING: rows were accepted in other tables than these: a dump was loaded since, or the database was copied")
			since := d.suspendedAt()
			d.must(d.exec.Suspend(t.Context(), "another", outbox.CauseNewTimeline, "never accepted", server.Now))
			same(t, "since", d.suspendedAt(), since)
			d.accept()
			server, err = d.exec.CheckServer(t.Context())
			d.must(err)
			if server.AcceptedAt.IsZero() {
				t.Error("the rows are not accepted, although an operator has accepted them")
			}
			same(t, "settled at last", d.text(`SELECT railhead.server_is_settled()::text`), "true")
			same(t, "claimed at last", len(d.claim(lane("bank", 8, 0))), 1)
			// A report that was under way meanwhile opens nothing anew.
			d.must(d.exec.Suspend(t.Context(), "late", outbox.CauseNewTimeline, "never accepted", before.Now))
			same(t, "open", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`), "0")
			// A failover is found later: what was accepted before the dump does not name it.
			d.must(d.exec.Suspend(t.Context(), "worker", outbox.CauseNewTimeline, "on timeline 2", time.Now().Add(time.Hour)))
			same(t, "cause of a failover", d.text(`SELECT cause FROM railhead.payment_outbox_suspensions
				WHERE accepted_at IS NULL`), "NEW_TIMELINE")
		})
	}
}

// TestSuspensionFromADump: a dump that was made while a suspension was open brings it along. A lane that went on in
// another one, or in none, claims nothing by it.
func TestSuspensionFromADump(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueue()
	server, err := d.exec.CheckServer(t.Context())
	d.must(err)
	d.must(d.exec.Suspend(t.Context(), "worker", outbox.CauseNewTimeline, "on timeline 2", server.Now))
	goesOn := lane("bank", 8, 0)
	goesOn.GoesOn = true
	d.do(`UPDATE railhead.payment_outbox_suspensions SET server_started_at = server_started_at - interval '9 days',
		opened_at = opened_at - interval '9 days', known_until = known_until - interval '9 days'`)
	loads(d.Cell, "payment_accepted_timelines")
	for _, l := range []outbox.Lane{lane("bank", 8, 0), goesOn} {
		same(t, fmt.Sprintf("claimed by a lane that goes on: %t", l.GoesOn), len(d.claim(l)), 0)
	}
	// The guards find it, and it is one of this start.
	d.must(d.exec.Suspend(t.Context(), "worker", outbox.CauseNewTimeline, "never accepted", server.Now))
	same(t, "claimed after it was judged", len(d.claim(goesOn)), 1)
}

// TestCopyOfADatabase: what PostgreSQL copies is no longer accepted.
func TestCopyOfADatabase(t *testing.T) {
	t.Parallel()
	template, err := celltest.Template()
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t, pgtest.From(template))
	var settled bool
	if err := db.Conn(t, "").QueryRow(t.Context(), `SELECT railhead.server_is_settled()`).Scan(&settled); err != nil {
		t.Fatal(err)
	}
	if settled {
		t.Error("a copy of the database counts as accepted")
	}
}

// TestLoadedMap: a map that was compared before its dump was loaded confirms nothing: this cell may have given a
// bucket away since.
func TestLoadedMap(t *testing.T) {
	t.Parallel()
	for _, tables := range [][]string{
		{"payment_cell_checks", "payment_outbox_rules"}, {"payment_outbox_rules"}, {"payment_cell_checks"}, nil, // copied
	} {
		east, _ := twoCells(t)
		atEast := openIngest(t, east.Cell, 4)
		_, err := atEast.Enqueue(t.Context(), order(1))
		east.must(err)
		loads(east.Cell, tables...)
		if tables == nil {
			east.do(`ALTER TABLE railhead.payment_cell_checks DISABLE TRIGGER payment_cell_checks_append_only`)
			east.do(`UPDATE railhead.payment_cell_checks SET database_oid = 1`)
		}
		if tables == nil || len(tables) == 1 && tables[0] == "payment_cell_checks" {
			east.do(`UPDATE railhead.payment_outbox_settings SET singleton = true`) // makes payment_outbox_rules anew
		}
		confirmed := len(tables) == 1 && tables[0] == "payment_outbox_rules"
		same(t, "confirmed", east.text(`SELECT railhead.map_is_confirmed()::text`), map[bool]string{true: "true", false: "false"}[confirmed])
		_, err = atEast.Enqueue(t.Context(), order(2))
		if confirmed {
			east.must(err)
			continue
		}
		wantRefused(t, "one", err, "RH009", "until its map was compared")
		batch, err := atEast.EnqueueBatch(t.Context(), []payment.Instruction{order(3)})
		east.must(err)
		said, _ := saidOf(batch)
		same(t, "of a batch", said, "RH009")
	}
}
