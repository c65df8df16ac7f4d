// Package pgtest gives every test a fresh database on a real PostgreSQL.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestEnqueue(t *testing.T) {
//		db := pgtest.New(t, pgtest.From(template))
//		conn := db.Conn(t, "railhead_ingest_login")
//		...
//	}
//
// The server is the one that TEST_DATABASE_URL names (`make test` starts one for the whole run);
// without it the first New starts a private one for this test binary, which dies with it. Either
// way fsync and synchronous_commit are on: what the tests claim is about durability.
//
// A test database is a clone of a template that is built once per server, keyed by a digest of what
// it is built from. Test binaries that run at once, of one checkout or of several, share templates
// without racing: building and clearing up happen under one advisory lock of the database
// "postgres". Roles belong to the whole cluster, so Build may create them, and holds that lock
// while it does.
//
// Bounds: 32 databases at once per test binary, 8 connections per pool (see [PoolSize]); a server
// needs max_connections of about 300.
package pgtest
