package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/proofs"
)

// tamperFaults returns the faults in which a superuser changes what no role may change.
// Nothing in the database can prevent it; the proofs, or the server as it reads the page,
// must find it.
func tamperFaults() []Fault {
	return []Fault{
		{
			Name: "tampered_by_superuser", About: "a superuser turns the guards off and edits, removes, renumbers and " +
				"invents rows under traffic: the proofs name each",
			Adjust: func(o *Options) { o.Wave, o.Rails = 40, []string{Keyed, Asked} }, Inject: tamper,
		},
		{
			Name: "tampered_page", About: "a byte of the archive is changed on the disk while the server is down: the server " +
				"says so and hands the row to no session",
			Adjust: func(o *Options) { o.Relayers, o.Reapers, o.Rails = 0, 0, []string{Keyed} }, Quiet: true, Inject: flipByte,
		},
	}
}

// offences lists what is done to the rows of one instruction that has ended; $1 is its
// id.
var offences = []struct{ name, sql string }{
	{"another amount", `UPDATE %[1]s.payment_outbox_instructions SET payload = jsonb_set(payload, '{amount}', '"9999.99"') WHERE outbox_id = $1`},
	{"another payee", `UPDATE %[1]s.payment_outbox_attempts a SET payload = jsonb_set(i.payload, '{creditor}', '{"account": "thief"}')
	  FROM %[1]s.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id AND a.outbox_id = $1 AND a.attempt_no = 1`},
	{"what was ordered removed", `DELETE FROM %[1]s.payment_outbox_instructions WHERE outbox_id = $1`},
	{"an outcome removed", `DELETE FROM %[1]s.payment_outbox_attempts WHERE outbox_id = $1 AND attempt_no = (SELECT max(attempt_no) FROM %[1]s.payment_outbox_attempts WHERE outbox_id = $1)`},
	{"a claim removed", `DELETE FROM %[1]s.payment_outbox_attempts WHERE outbox_id = $1 AND attempt_no = 1`},
	{"every row removed", `DELETE FROM %[1]s.payment_outbox_attempts WHERE outbox_id = $1`},
	{"a row renumbered", `UPDATE %[1]s.payment_outbox_attempts SET attempt_no = attempt_no + 5 WHERE outbox_id = $1 AND attempt_no = (SELECT max(attempt_no) FROM %[1]s.payment_outbox_attempts WHERE outbox_id = $1)`},
	{"a key's content", `UPDATE %[1]s.payment_outbox_keys SET fingerprint = sha256('x') WHERE outbox_id = $1`},
	{"a key's number", `UPDATE %[1]s.payment_outbox_keys SET sequence_id = sequence_id + 1000000 WHERE outbox_id = $1`},
	{"sent once more", `INSERT INTO %[1]s.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at)
	  SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, now() + interval '1 hour'
	  FROM %[1]s.payment_outbox_attempts WHERE outbox_id = $1 AND attempt_no = 1`},
}

func tamper(ctx context.Context, w *World) error {
	conn, err := pgx.Connect(ctx, w.Lane.Server.URL(w.database, ""))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, offence := range offences {
		if _, err := w.Traffic(w.Options.Wave / 4); err != nil {
			return err
		}
		var id string
		if err := await.Until(ctx, 20*time.Second, "a payment that has ended", func() (bool, error) {
			err := conn.QueryRow(ctx, `SELECT outbox_id::text FROM `+cell+`.payment_outbox_attempts WHERE state = 'DISPATCHED'
			  ORDER BY md5(outbox_id::text || $1) LIMIT 1`, fmt.Sprint(w.Options.Seed, offence.name)).Scan(&id)
			return err == nil, nil
		}); err != nil {
			return err
		}
		w.Injected++
		if err := w.unguarded(ctx, conn, func(tx pgx.Tx) error {
			for _, table := range []string{"attempts", "instructions", "keys"} {
				if _, err := tx.Exec(ctx, `CREATE TEMP TABLE kept_`+table+` AS SELECT * FROM `+cell+`.payment_outbox_`+table+`
					WHERE outbox_id = $1`, id); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, fmt.Sprintf(offence.sql, cell), id)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", offence.name, err)
		}
		found, err := w.proven(ctx, id)
		if err != nil {
			return err
		}
		if found {
			w.Hit++
		} else {
			w.Broken("%s of %s, and no proof names it", offence.name, id)
		}
		// Everything is put back: what is judged at the end is the installation.
		if err := w.unguarded(ctx, conn, func(tx pgx.Tx) error {
			for _, sql := range []string{
				`DELETE FROM %[1]s.payment_outbox_pending WHERE outbox_id = (SELECT outbox_id FROM kept_keys)`,
				`DELETE FROM %[1]s.payment_outbox_attempts WHERE outbox_id = (SELECT outbox_id FROM kept_keys)`,
				`INSERT INTO %[1]s.payment_outbox_attempts SELECT * FROM kept_attempts`,
				`DELETE FROM %[1]s.payment_outbox_instructions WHERE outbox_id = (SELECT outbox_id FROM kept_keys)`,
				`INSERT INTO %[1]s.payment_outbox_instructions SELECT * FROM kept_instructions`,
				`UPDATE %[1]s.payment_outbox_keys k SET fingerprint = o.fingerprint, sequence_id = o.sequence_id FROM kept_keys o WHERE o.outbox_id = k.outbox_id`,
				`DROP TABLE kept_attempts`, `DROP TABLE kept_instructions`, `DROP TABLE kept_keys`,
			} {
				if strings.Contains(sql, "%[1]s") {
					sql = fmt.Sprintf(sql, cell)
				}
				if _, err := tx.Exec(ctx, sql); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("putting %s back: %w", offence.name, err)
		}
	}
	return nil
}

// proven reports whether a proof fails and names the instruction.
func (w *World) proven(ctx context.Context, id string) (bool, error) {
	conn, err := pgx.Connect(ctx, w.Lane.Server.URL(w.database, ""))
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	report, err := proofs.Run(ctx, conn, proofs.Options{Cell: cell, Logins: logins, InFlightMax: time.Minute})
	if err != nil {
		return false, err
	}
	for _, proof := range report.Proofs {
		if proof.Status == proofs.Failed && strings.Contains(fmt.Sprintf("%+v", proof), id) {
			return true, nil
		}
	}
	return false, nil
}

// unguarded calls do with every trigger of the cell off, as a superuser would who wants
// to remain unnoticed.
func (w *World) unguarded(ctx context.Context, conn *pgx.Conn, do func(pgx.Tx) error) error {
	const triggers = `SELECT format('ALTER TABLE ONLY %s DISABLE TRIGGER %I', tgrelid::regclass, tgname),
	  format('ALTER TABLE ONLY %s ENABLE %s TRIGGER %I', tgrelid::regclass, CASE tgenabled WHEN 'A' THEN 'ALWAYS'
	  ELSE '' END, tgname)
	  FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
	  WHERE c.relnamespace = '` + cell + `'::regnamespace AND NOT tgisinternal ORDER BY 1`
	const tablesSQL = `SELECT string_agg(DISTINCT tgrelid::regclass::text, ', ') FROM pg_trigger
		JOIN pg_class c ON c.oid = tgrelid
	  WHERE c.relnamespace = '` + cell + `'::regnamespace AND NOT tgisinternal`
	type both struct{ Off, On string }
	var last error
	err := await.Until(ctx, 30*time.Second, "the locks to turn the guards off", func() (bool, error) {
		last = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			// All of them are locked at once or none: in a conflict this transaction gives way.
			var tables string
			if err := tx.QueryRow(ctx, tablesSQL).Scan(&tables); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "LOCK TABLE "+tables+" IN ACCESS EXCLUSIVE MODE NOWAIT"); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, triggers)
			if err != nil {
				return err
			}
			all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[both])
			if err != nil {
				return err
			}
			for _, each := range all {
				if _, err := tx.Exec(ctx, each.Off); err != nil {
					return err
				}
			}
			if err := do(tx); err != nil {
				return err
			}
			for _, each := range all {
				if _, err := tx.Exec(ctx, each.On); err != nil {
					return err
				}
			}
			return nil
		})
		state := ledger.SQLState(last)
		if last != nil && state != "55P03" {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return errors.Join(err, last)
	}
	return err
}

func flipByte(ctx context.Context, w *World) error {
	err := w.move(ctx, filepath.Join(w.dir, "moved"))
	if err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		return err
	}
	const whereSQL = `SELECT pg_relation_filepath(tableoid) FROM ` + cell + `.payment_outbox_attempts LIMIT 1`
	const allSQL = `SELECT count(md5(a::text)) FROM ` + cell + `.payment_outbox_attempts a`
	var path string
	if err := w.admin.QueryRow(ctx, whereSQL).Scan(&path); err != nil {
		return err
	}
	path = filepath.Join(w.Lane.Server.DataDir(), path)
	w.Injected++
	// The first rows are in the last bytes of a page.
	at := int64(8192 - 40 - w.draws.IntN(200))
	if err := w.flip(ctx, path, at); err != nil {
		return err
	}
	var n int
	if err := await.Until(ctx, startedWithin, "the archive to be read", func() (bool, error) {
		err = w.admin.QueryRow(ctx, allSQL).Scan(&n)
		return err == nil || ledger.SQLState(err) != "", nil // else the connection was an old one
	}); err != nil {
		return err
	}
	if ledger.SQLState(err) == "XX001" {
		w.Hit++
	} else {
		w.Broken("a byte of the archive was changed, and reading it says %v", err)
	}
	return w.flip(ctx, path, at)
}

// flip stops the server, changes one byte of a file, and starts the server again.
func (w *World) flip(ctx context.Context, path string, at int64) error {
	if err := w.Lane.Server.Halt(ctx); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, fs.FileMode(0))
	if err != nil {
		return err
	}
	one := make([]byte, 1)
	_, err = file.ReadAt(one, at)
	if err == nil {
		one[0] ^= 0x40
		_, err = file.WriteAt(one, at)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return w.Lane.Server.Restart(ctx)
}
