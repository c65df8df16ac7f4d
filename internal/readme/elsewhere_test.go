package readme

import "strings"

// elsewhere is the one list of what is shown and not run by TestTypedExamples, with the
// reason. An entry is a whole block, or one command of a block, by how it begins.
var elsewhere = []struct {
	page, begins string
	whole        bool
	because      string
}{
	{page: "README.md", begins: "make run ", because: "it is what the examples are run on"},
	{page: "README.md", begins: "make test ", because: "it runs this test"},
	{page: "README.md", begins: "make money ", because: "10,000 payments take minutes"},
	{page: "README.md", begins: "make api ", because: "800 payments under faults take minutes"},
	{page: "README.md", begins: "make events ", because: "a failover under faults takes minutes; testbed/faults runs a short one"},
	{page: "README.md", begins: "make brokers ", because: "20,000 payments take minutes; testbed/streams runs a short one"},
	{page: "docs/ingest.md", begins: "import base64", whole: true, because: "ingest/webhook runs it on a delivery"},
	{page: "docs/operations.md", begins: "endpoints:", whole: true, because: "ingest/webhook reads it as the events file that it is"},
	{page: "docs/upgrades.md", begins: "make migration ", whole: true, because: "it changes the checkout; ./migrations runs what it runs"},
	{page: "docs/upgrades.md", begins: "SELECT h.name, h.kind, h.status", whole: true, because: "it needs a superuser and a cell at migration 43; ./migrations runs it there"},
	{page: "docs/upgrades.md", begins: "DELETE FROM railhead.outbox_heartbeats", whole: true, because: "it needs a superuser and a cell at migration 43; ./migrations runs it there"},
	{page: "README.md", begins: "make faults ", because: "it takes hours"},
	{page: "README.md", begins: "make ha ", because: "20 failovers take half an hour"},
	{page: "README.md", begins: "make cells ", because: "four cells under faults take minutes; testbed/cells runs a short one"},
	{page: "README.md", begins: "make mutants ", because: "it takes hours"},
	{page: "README.md", begins: "make late-matrix ", because: "it takes hours"},
	{page: "README.md", begins: "make offences ", because: "more than a hundred databases take minutes; make test MERGE=1 plants the same"},
	{page: "README.md", begins: "make journeys ", because: "it starts an installation of its own, and .ci/run runs it"},
	{page: "docs/operations.md", begins: "railhead token revoke ", because: "the id is of no token there; TestToken of the command revokes one"},
	{page: "railhead token create", begins: "railhead token create --name shop --participant p1 --cells ", because: "it needs two databases; TestTokenInCells of the command has three"},
	{page: "railhead token copy", begins: "railhead token copy ", because: "it needs two databases; TestTokenInCells of the command has three"},
	{page: "docs/scale.md", begins: "railhead cell ", because: "it needs two databases; TestCells of the command has three"},
	{page: "docs/operations.md", begins: "railhead cell ", because: "it needs two databases; TestMovedCells of the command has three"},
	{page: "railhead cell move", begins: "railhead cell ", because: "it needs two databases; TestMovedCells of the command has three"},
	{page: "railhead cell add", begins: "railhead cell ", because: "it needs two databases; TestCells of the command has three"},
	{page: "railhead cell assign", begins: "railhead cell ", because: "it needs two databases; TestCells of the command has three"},
	{page: "railhead cell rejoin", begins: "railhead cell ", because: "it needs two databases; TestCells of the command has three"},
	{page: "railhead cell sync", begins: "railhead cell ", because: "it needs two databases; TestCells of the command has three"},
	{page: "railhead cell settle", begins: "railhead cell ", because: "it needs two databases; TestCells of the command has three"},
	{page: "docs/performance.md", begins: "make bench ", because: "it measures for half an hour"},
	{page: "docs/performance.md", begins: "make bench-scale ", because: "it needs 15 GB of disk"},
	{page: "docs/performance.md", begins: "make bench-against ", because: "it measures for a quarter of an hour"},
	{page: "docs/performance.md", begins: "make bench-docs ", because: "it writes the page"},
	{page: "docs/scale.md", begins: "make scale", because: "it measures for a quarter of an hour; bench/growth runs a short one"},
	{page: "docs/console.md", begins: "export RAILHEAD_READER_URL=", whole: true, because: "settings of a console behind a proxy; make console starts several"},
	{page: "docs/console.md", begins: "export RAILHEAD_CONSOLE_OIDC_ISSUER=", whole: true, because: "it needs a provider; the tests of the console have one"},
	{page: "docs/console.md", begins: "make console ", because: "it needs Chromium, and an installation of its own"},
	{page: "docs/console.md", begins: "make console-clicks ", because: "it needs Chromium, and an installation that it breaks"},
	{page: "docs/console.md", begins: "make screenshots ", because: "it needs Chromium, and an installation of its own"},
	{page: "docs/console.md", begins: "make console-scale ", because: "it needs Chromium and 8 GB of disk"},
	{page: "docs/operations.md", begins: "RAILHEAD_RELAYER_URL='postgres://relayer@pooler:6432", whole: true, because: "settings of a process behind PgBouncer; make faults runs one"},
	{page: "docs/operations.md", begins: "railhead prove --administrator", whole: true, because: "it needs a server whose superuser is another's; TestAdministratorInstalls of the command has one"},
	{page: "docs/operations.md", begins: "pg_dump -Fc --schema", whole: true, because: "it needs two servers; TestAdministratorRestores of the command has them"},
	{page: "docs/operations.md", begins: "# each database host", whole: true, because: "a highly available cell; testbed/ha runs it word by word"},
	{page: "docs/operations.md", begins: "# db1", whole: true, because: "a highly available cell; testbed/ha runs it word by word"},
	{page: "docs/operations.md", begins: "# db2, ", whole: true, because: "a highly available cell; testbed/ha runs it word by word"},
	{page: "docs/operations.md", begins: "# db3, ", whole: true, because: "a highly available cell; testbed/ha runs it word by word"},
	{page: "docs/operations.md", begins: "# application host", whole: true, because: "a highly available cell; testbed/ha runs it word by word"},
	{page: "docs/operations.md", begins: "apt-get install ", whole: true, because: "packages for hosts; scripts/install-ha.sh unpacks the same"},
	{page: "docs/operations.md", begins: "BEGIN ISOLATION LEVEL READ COMMITTED;\nSET LOCAL lock_timeout", whole: true, because: "its month is not there; TestDetachAMonth of ./ledger runs it on one that is"},
	{page: "docs/operations.md", begins: "# postgres\n", whole: true, because: "the restore drill; testbed/drill runs it word by word"},
	{page: "docs/operations.md", begins: "# operator\n", whole: true, because: "the restore drill; testbed/drill runs it word by word"},
}

// runElsewhere says which entry of the list a whole block, or a command of it, is.
func runElsewhere(page, text string, whole bool) (entry int, found bool) {
	for n, each := range elsewhere {
		if each.page == page && each.whole == whole && strings.HasPrefix(text, each.begins) {
			return n, true
		}
	}
	return 0, false
}
