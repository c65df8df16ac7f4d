package pgtest

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// LikePooler returns the URL of a socket that leads to the server of another URL and answers a new connection, as
// poolers do, with a key for cancellations that is its own. No notification comes through it.
func LikePooler(t testing.TB, to string) string {
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

// withOwnKey copies the messages of a server without its notifications, and changes the process id of BackendKeyData.
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
		if head[0] == 'A' { // a notification
			continue
		}
		if _, err := client.Write(append(head[:5:5], body...)); err != nil {
			return err
		}
	}
}
