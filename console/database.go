package console

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// nearFull is the share of its limit from which on the size of the database is an alarm, as in the alerts.
const nearFull = 0.8

// oldIDs is the share of the ids of transactions or multixacts from which on they are an alarm, as in the alerts.
const oldIDs = 0.4

// databaseBody is the body of the page of the database.
type databaseBody struct {
	reader.Database
	Size     string
	Limit    string // empty: no limit is known
	Percent  string // of the limit
	Full     bool   // above nearFull
	IDs      string // how much of the ids of transactions and multixacts has passed
	OldIDs   bool   // above oldIDs
	Tables   []tableRow
	Unread   bool // the sizes of tables could not be read
	Holding  []holderRow
	LoginsOf []loginRow
}

// tableRow is one of the largest tables.
type tableRow struct {
	Name, Size string
	Foreign    bool // no table of the cell
}

// holderRow is what keeps vacuum from removing dead rows.
type holderRow struct {
	What, Application, Known string
	Transactions             int64
}

// loginRow is a login of Railhead's, with what is wrong with it.
type loginRow struct {
	reader.ServiceLogin
	Fault string // empty: none
	Alert string // whose runbook is about it; empty: it is in order
}

// database shows what the cell needs of its database.
func (c *Console) database(w http.ResponseWriter, r *http.Request, _ Person) {
	found, err := c.reader.Database(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := databaseBody{Database: found, Size: bytesOf(found.Bytes)}
	if limit := c.cell.DatabaseSizeLimit; limit > 0 {
		share := float64(found.Bytes) / float64(limit)
		body.Limit, body.Percent, body.Full = bytesOf(limit), fmt.Sprintf("%.0f %%", 100*share), share > nearFull
	}
	ids := max(found.Wraparound.Transactions, found.Wraparound.Multixacts)
	body.IDs, body.OldIDs = fmt.Sprintf("%.0f %%", 100*ids), ids > oldIDs
	// A table may be locked; the rest of the page is no less true.
	tables, err := c.reader.LargestTables(r.Context())
	if body.Unread = err != nil; err != nil {
		c.log.WarnContext(r.Context(), "the sizes of tables were not read", "error", err)
	}
	for _, table := range tables {
		body.Tables = append(body.Tables, tableRow{
			Name: explain.OneLine(table.Schema + "." + table.Name), Size: bytesOf(table.Bytes),
			Foreign: table.Schema != c.cell.Schema,
		})
	}
	for _, holder := range found.Holders {
		body.Holding = append(body.Holding, holderOf(holder))
	}
	for _, login := range found.Logins {
		row := loginRow{ServiceLogin: login}
		switch {
		case !login.MayLogIn:
			row.Fault = "it may not log in"
		case login.PasswordEnded:
			row.Fault = "its password is no longer valid"
		case login.ConnectionLimit >= 0 && login.Here+login.Elsewhere >= int64(login.ConnectionLimit):
			row.Fault = fmt.Sprintf("it has all of its %d connections", login.ConnectionLimit)
		}
		if row.Fault != "" {
			row.Alert = alertOfLogin(login.Role)
		}
		body.LoginsOf = append(body.LoginsOf, row)
	}
	c.show(w, r, "database.html", page{Title: "Database", Body: body})
}

func holderOf(holder reader.SnapshotHolder) holderRow {
	kinds := map[string]string{"prepared": "prepared transaction", "slot": "replication slot"}
	row := holderRow{
		What:        cmp.Or(kinds[holder.Kind], holder.Kind) + " " + explain.OneLine(holder.Name),
		Application: explain.OneLine(holder.Application), Transactions: holder.Transactions, Known: "not known",
	}
	if holder.Login != "" {
		row.What += " of " + explain.OneLine(holder.Login)
	}
	if holder.Known > 0 {
		row.Known = explain.Span(holder.Known)
	}
	return row
}

// alertOfLogin is the alert that fires if the logins of a role may not log in.
func alertOfLogin(role string) string {
	switch strings.TrimPrefix(role, "railhead_") {
	case "api":
		return "RailheadAPIFailing"
	case "readonly", "auditor":
		return "RailheadStatsStale"
	default:
		return "RailheadComponentStale"
	}
}

// bytesOf is a size with a unit.
func bytesOf(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	default:
		return fmt.Sprintf("%d KiB", n>>10)
	}
}
