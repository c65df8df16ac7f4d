package store

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// TestServerBehindAPooler: through a pooler that prepares statements by name itself, so that all works without
// default_query_exec_mode, the server of a connection is read in each transaction. On a direct connection it is read
// once, because it can't change there.
func TestServerBehindAPooler(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	direct := cell.URL(celltest.Relayer)
	for name, url := range map[string]string{"direct": direct, "pooler": likePooler(t, direct)} {
		db, err := Open(t.Context(), ledger.Config{URL: url, Cell: cell.Schema, MaxConns: 1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(db.Pool.Close)
		begin := func(on outbox.Server) error {
			tx, err := db.Begin(t.Context(), &on)
			if err != nil {
				return err
			}
			defer tx.Release()
			return tx.giveUp(t.Context(), nil)
		}
		// The connection was made to a server that has failed since, and the pooler leads it to the new one.
		before := outbox.Server{SystemIdentifier: "1", Timeline: 1}
		lent, err := db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lent.Conn().PgConn().CustomData()[identityKey] = before
		lent.Release()
		db.Server.Store(&before)
		err = begin(before)
		if name == "direct" && err != nil {
			t.Errorf("a direct connection: %v", err)
		}
		if name == "pooler" && !errors.Is(err, outbox.ErrServerChanged) {
			t.Errorf("behind a pooler a transaction for the server before begins on the new one: %v", err)
		}
	}
}

// likePooler returns the URL of a socket that leads to the server of another URL and answers a new connection, as
// poolers do, with a key for cancellations that is its own.
func likePooler(t *testing.T, to string) string {
	t.Helper()
	parsed, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	port := query.Get("port")
	if port == "" {
		port = "5432"
	}
	socket := filepath.Join(query.Get("host"), ".s.PGSQL."+port)
	dir, err := os.MkdirTemp("", "pooler")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL."+port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				_ = client.Close()
				return
			}
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			}()
			go func() {
				_ = withOwnKey(client, server)
				_ = client.Close()
			}()
		}
	}()
	query.Set("host", dir)
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// withOwnKey copies the messages of a server, and changes the process id of BackendKeyData.
func withOwnKey(client io.Writer, server io.Reader) error {
	for head := make([]byte, 5); ; {
		if _, err := io.ReadFull(server, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return err
		}
		if head[0] == 'K' {
			body[0] ^= 0x40
		}
		if _, err := client.Write(append(head[:5:5], body...)); err != nil {
			return err
		}
	}
}
