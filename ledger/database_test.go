package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestDatabase: its size, partitions, tables, what holds vacuum, and who may log in.
func TestDatabase(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`CREATE TABLE public.filler AS SELECT repeat(md5(g::text), 20) AS filler FROM generate_series(1, 4000) g`)
	holder := cell.Conn(t, celltest.Operator)
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM railhead.payment_rails"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	cell.Exec(`CREATE TABLE public.later (n integer)`) // a transaction that is numbered after the snapshot
	looker := openReader(t, cell)
	got, err := looker.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Bytes < 1<<20 || got.MonthsAhead < 1 || got.DefaultRows != 0 {
		t.Errorf("size, months ahead and rows in the DEFAULT: %+v", got)
	}
	if !slices.ContainsFunc(got.Holders, func(h reader.SnapshotHolder) bool {
		return h.Kind == "session" && h.Login == celltest.Operator && h.Transactions > 0
	}) {
		t.Errorf("the session of %s holds vacuum: %+v", celltest.Operator, got.Holders)
	}
	of := func(login string) reader.ServiceLogin {
		at := slices.IndexFunc(got.Logins, func(l reader.ServiceLogin) bool { return l.Login == login })
		if at < 0 {
			t.Fatalf("no login %s: %+v", login, got.Logins)
		}
		return got.Logins[at]
	}
	if one := of(celltest.Operator); one.Role != "railhead_operator" || !one.MayLogIn || one.PasswordEnded ||
		one.Here < 1 {
		t.Errorf("the login of operators: %+v", one)
	}
	tables, err := looker.LargestTables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tables, func(s reader.TableSize) bool {
		return s.Schema == "public" && s.Name == "filler" && s.Bytes > 1<<20
	}) || !slices.IsSortedFunc(tables, func(a, b reader.TableSize) int { return int(b.Bytes - a.Bytes) }) {
		t.Errorf("the largest tables: %+v", tables)
	}
}

// TestExpiringSoon lists what is pending, certain and expires within 15 minutes, the soonest first; not what was
// enqueued a moment ago.
func TestExpiringSoon(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	looker := openReader(t, d.Cell)
	var ids []string
	for n, within := range []time.Duration{14 * time.Minute, 5 * time.Minute, time.Hour, 0, 2 * time.Minute} {
		in := order(n)
		if within > 0 {
			in.ExpiresAt = time.Now().Add(within)
		}
		receipt, err := openIngest(t, d.Cell, 1).Enqueue(t.Context(), in)
		d.must(err)
		ids = append(ids, receipt.OutboxID.String())
	}
	d.do(`UPDATE railhead.payment_outbox_pending SET created_at = now() - interval '1 minute'`)
	d.do(`UPDATE railhead.payment_outbox_pending SET created_at = now() WHERE outbox_id = '` + ids[4] + `'`)
	soon, more, err := looker.ExpiringSoon(t.Context())
	d.must(err)
	if len(soon) != 2 || more || soon[0].OutboxID.String() != ids[1] || soon[1].OutboxID.String() != ids[0] ||
		soon[0].RailType != celltest.Bank || soon[0].InMS < 200_000 || soon[0].InMS > 300_000 || soon[0].ExpiresAt.IsZero() {
		t.Errorf("%+v, more %t; want %s and %s", soon, more, ids[1], ids[0])
	}
}
